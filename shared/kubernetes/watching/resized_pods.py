"""Pods that run with other resources than their spec asks for: resized in place (KEP-1287).

Kubelets report the resources of each container. Nearly always these equal the spec byte by byte:
such a pod stays one of many equal pods, and nothing more of its status is read.
"""

from collections.abc import Sequence

import msgspec

from shared.kubernetes.objects.structs import (
    NOTHING,
    PodStatus,
    RawCondition,
    RawContainer,
    RawContainerStatus,
    RawPod,
)

RESOURCES, PENDING = b'"resources"', b'"PodResizePending"'


class RawResources(msgspec.Struct):
    """A container's resources."""

    requests: msgspec.Raw = NOTHING


class Resized(msgspec.Struct, omit_defaults=True):
    """The part of a status that says what the pod uses, encoded as the JSON of a status."""

    containerStatuses: list[RawContainerStatus] = []
    initContainerStatuses: list[RawContainerStatus] = []
    conditions: list[RawCondition] = []
    resources: msgspec.Raw = NOTHING
    allocatedResources: msgspec.Raw = NOTHING


_decode_statuses = msgspec.json.Decoder(list[RawContainerStatus]).decode
_decode_requests = msgspec.json.Decoder(RawResources).decode
_decode_conditions = msgspec.json.Decoder(list[RawCondition]).decode
_encode = msgspec.json.Encoder().encode


def resized(pod: RawPod) -> bytes:
    """Return the part of a status that differs from the spec; empty = nothing differs. Raises
    msgspec.ValidationError.
    """
    status, spec = pod.status, pod.spec
    mains = _other(status.containerStatuses, spec.containers)
    inits = _other(status.initContainerStatuses, spec.initContainers or ())
    # Since 1.36 a pod with requests as a whole has what it gets as a whole; since 1.37 all may.
    is_whole = status.resources is not NOTHING and (
        spec.resources is not NOTHING or status.allocatedResources is not NOTHING
    )
    if not mains and not inits and not is_whole:
        return b""
    pending = _pending(status)
    if pending:  # what the others have counts in place of what they ask for
        mains, inits = (_all(status.containerStatuses), _all(status.initContainerStatuses))
    whole = (status.resources, status.allocatedResources) if is_whole else ()
    return _encode(Resized(mains, inits, pending, *whole))


def _all(raw: msgspec.Raw) -> list[RawContainerStatus]:
    return [] if raw is NOTHING else _decode_statuses(raw)


def _other(raw: msgspec.Raw, containers: Sequence[RawContainer]) -> list[RawContainerStatus]:
    if raw is NOTHING or RESOURCES not in bytes(raw):
        return []
    specs = {one.name: bytes(one.resources) for one in containers}
    return [one for one in _decode_statuses(raw) if not _is_as_asked(one, specs.get(one.name, b""))]


def _is_as_asked(one: RawContainerStatus, spec: bytes) -> bool:
    """Return whether the container's actual and allocated resources equal its requests, byte by
    byte.
    """
    has, granted = bytes(one.resources), bytes(one.allocatedResources)
    if not has or has != spec:
        return not has
    return not granted or granted == bytes(_decode_requests(has).requests)


def _pending(status: PodStatus) -> list[RawCondition]:
    raw = status.conditions
    if raw is NOTHING or PENDING not in bytes(raw):
        return []
    return [one for one in _decode_conditions(raw) if one.type == "PodResizePending"]
