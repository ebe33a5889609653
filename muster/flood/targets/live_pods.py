"""Pods of a live cluster, as far as a flood reads them."""

import msgspec

from shared.kubernetes.objects.structs import Change, Meta


class _Spec(msgspec.Struct, frozen=True):
    nodeName: str = ""


class LivePod(msgspec.Struct):
    """A pod, or any object: metadata and node."""

    metadata: Meta
    spec: _Spec = _Spec()


class LivePods(msgspec.Struct):
    """A list of pods."""

    items: list[LivePod]


pod_of = msgspec.json.Decoder(LivePod).decode
pods_of = msgspec.json.Decoder(LivePods).decode
change_of = msgspec.json.Decoder(Change[LivePod]).decode
