"""Converts pod specs of a live API to what the scheduler reads of them, each distinct spec once.

The rules are those of manifests (shared/worlds). Controllers make thousands of equal pods, so a
spec is looked up by its bytes; also by its labels where its rules name label keys, which older API
servers do not merge into the selectors. A running pod counts with its requests, host ports and
inter-pod terms even where its other rules are not supported: only pods that wait for us are refused
for those.
"""

from collections.abc import Hashable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.groups.other_schedulers import LABELS
from shared.kubernetes.objects.pod_templates import (
    PriorityClass,
    Template,
    template_of,
)
from shared.kubernetes.objects.structs import NOTHING, Owner, PodMeta, RawPodSpec
from shared.kubernetes.watching.lenient_pods import GROUPS, take_out
from shared.model.objects import PodSpec
from shared.model.pod_rules.default_spread import owner_of
from shared.model.release import DEFAULT_RELEASE, Release
from shared.scheduling.api.custom.plugin import metadata_read, shown

LOOKUPS = 100_000
"""The number of lookups for which an unused entry is kept: a pod is looked up three or
four times.
"""
NO_CLASSES: Mapping[str, PriorityClass] = {}
AMOUNTS = ("containers", "initContainers", "overhead", "resources", "hostNetwork")
INTER_POD_RULES = ("podAffinity", "podAntiAffinity")
LABEL_KEYS = b'atchLabelKeys"'  # matchLabelKeys, mismatchLabelKeys
IDENTITY = ("priority", "preemptionPolicy", "schedulerName")

Labels = tuple[tuple[str, str], ...]


class Known(msgspec.Struct, frozen=True, gc=False):
    """A distinct spec. `refused` = the (field, rule) for which we cannot schedule such pods. The
    template then holds only what such a pod takes, and asks of other pods, while it runs.
    """

    number: int
    template: Template
    refused: tuple[str, str] | None = None


class KnownLabels(msgspec.Struct, frozen=True, gc=False):
    """A distinct set of labels. `names_group`: one may name the group of another scheduler."""

    number: int
    labels: Labels
    names_group: bool = False


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """A dict that forgets entries after LOOKUPS to 2 x LOOKUPS lookups of other keys. Each job and
    gang has another spec, so without forgetting it would grow for ever.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._newer: dict[Key, Value] = {}
        self._older: dict[Key, Value] = {}
        self._lookups = 0

    def get(self, key: Key) -> Value | None:
        """Return the value, or None when it is unknown or forgotten."""
        self._lookups += 1
        if self._lookups > LOOKUPS:
            self._newer, self._older, self._lookups = {}, self._newer, 0
        found = self._newer.get(key)
        if found is None:
            found = self._older.get(key)
            if found is not None:
                self._newer[key] = found
        return found

    def add(self, key: Key, value: Value) -> None:
        """Add a value after a lookup that found none."""
        self._newer[key] = value


class Templates:
    """The distinct specs and labels met so far."""

    def __init__(self, release: Release = DEFAULT_RELEASE) -> None:
        """Start empty. `release`: the kube-scheduler that reads the pods."""
        self._release = release
        self._specs: Recent[tuple[bytes, Labels, Labels, bytes], Known] = Recent()
        self._reads = metadata_read()
        self._labels: Recent[bytes, KnownLabels] = Recent()
        self._owners: Recent[bytes, str] = Recent()
        self._numbers = 0
        self._encode = msgspec.json.Encoder().encode
        self._decode_labels = msgspec.json.Decoder(dict[str, str]).decode
        self._decode_owners = msgspec.json.Decoder(list[Owner]).decode

    def of(
        self, spec: RawPodSpec, labels: KnownLabels, seen: Labels = (), resized: bytes = b""
    ) -> Known:
        """Return what the scheduler reads of a spec; removes the node's name from it. `seen` is the
        result of `shown`, `resized` the pod's other resources (see resized_pods.py).
        """
        spec.nodeName = None
        for volume in spec.volumes or ():
            if volume.ephemeral is NOTHING:
                volume.name = ""  # the token volume of every pod has another name
        key = self._encode(spec)
        pod_labels = labels.labels if LABEL_KEYS in key else ()
        found = self._specs.get((key, pod_labels, seen, resized))
        if found is None:
            status = msgspec.json.decode(resized) if resized else None
            found = self._read(key, dict(pod_labels), seen, status)
            self._specs.add((key, pod_labels, seen, resized), found)
        return found

    def shown(self, meta: PodMeta, labels: KnownLabels) -> Labels:
        """Return what users' plugins read of a pod's metadata."""
        if not self._reads:
            return ()
        annotations = self.labels(meta.annotations) if meta.annotations is not NOTHING else None
        found = () if annotations is None else annotations.labels
        return shown(self._reads, meta.namespace, dict(labels.labels), dict(found))

    def labels(self, raw: msgspec.Raw) -> KnownLabels:
        """Return labels sorted by key. Raises msgspec.ValidationError when they are not labels."""
        key = bytes(raw)
        found = self._labels.get(key)
        if found is None:
            labels = self._decode_labels(key) if key not in (b"", b"null") else {}
            self._numbers += 1
            names_group = any(label in labels for label in LABELS)
            found = KnownLabels(self._numbers, tuple(sorted(labels.items())), names_group)
            self._labels.add(key, found)
        return found

    def owner(self, raw: msgspec.Raw) -> str:
        """Return the controller among a pod's ownerReferences, if default spreading considers its
        kind. Raises msgspec.ValidationError.
        """
        key = bytes(raw)
        found = self._owners.get(key)
        if found is None:
            owners = self._decode_owners(key) if key not in (b"", b"null") else []
            found = next((_text(reference) for reference in owners if reference.controller), "")
            self._owners.add(key, found)
        return found

    def _read(
        self, key: bytes, labels: dict[str, str], seen: Labels, status: dict[str, Any] | None
    ) -> Known:
        values = msgspec.json.decode(key)
        self._numbers += 1
        try:
            return Known(self._numbers, self._template(values, labels, seen, status))
        except WorldError as error:
            refused = (error.rejection.field, error.rejection.rule)
        amounts, inter_pod = _amounts_only(values), _inter_pod_only(values)
        least = self._readable(amounts, labels, seen, status)
        volumes = {"volumes": values["volumes"]} if "volumes" in values else {}
        for more in (inter_pod | volumes, inter_pod, volumes):
            try:
                found = self._template(amounts | more, labels, seen, status)
                return Known(self._numbers, found, refused)
            except WorldError:
                continue
        return Known(self._numbers, least, refused)

    def _template(
        self,
        values: dict[str, Any],
        labels: dict[str, str],
        seen: Labels,
        status: dict[str, Any] | None,
    ) -> Template:
        spec = Fields("", "spec", values)
        metadata = Fields("", "metadata", {"labels": labels})
        has = None if status is None else Fields("", "status", status)
        return template_of(metadata, spec, NO_CLASSES, None, seen, has, self._release)

    def _readable(
        self,
        amounts: dict[str, Any],
        labels: dict[str, str],
        seen: Labels,
        status: dict[str, Any] | None,
    ) -> Template:
        """Read a pod with all readable amounts; the others are removed from `values`."""
        pod = {"spec": amounts, "status": status or {}}
        while True:
            try:
                return self._template(amounts, labels, seen, status)
            except WorldError as error:
                if not take_out(pod, error.rejection.field):
                    break
        return Template(spec=PodSpec(scheduler=amounts.get("schedulerName") or "default-scheduler"))


def _text(owner: Owner) -> str:
    return owner_of(owner.kind, owner.apiVersion, owner.name)


def _amounts_only(values: dict[str, Any]) -> dict[str, Any]:
    """Return only what the pod takes from its node, without the rules for choosing one."""
    found = {name: values[name] for name in (*AMOUNTS, *IDENTITY) if name in values}
    for group in GROUPS:
        for container in found.get(group) or ():
            container.setdefault("name", "unnamed")
            (container.get("resources") or {}).pop("claims", None)
    return found


def _inter_pod_only(values: dict[str, Any]) -> dict[str, Any]:
    """Return only the pod's inter-pod terms, which other pods must respect while it runs."""
    affinity = values.get("affinity")
    if not isinstance(affinity, dict):
        return {}
    return {"affinity": {key: affinity[key] for key in INTER_POD_RULES if key in affinity}}


def raw_json(raw: msgspec.Raw) -> Any:
    """Return a raw field as plain values, None where it is absent."""
    return None if raw is NOTHING or not bytes(raw) else msgspec.json.decode(raw)
