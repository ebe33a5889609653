"""The start times of pods of a simulated cluster, for pods that came with one. No kubelet is
simulated, so pods bound later have none.
"""

from collections.abc import Container

import msgspec

from shared.events.base import Event
from shared.events.observed import PodsStartedSeen
from shared.model.columns import join, pack, split, unpack
from shared.model.world import Arrival


class Starts:
    """Times by uid, in ms since the epoch; also of deleted pods."""

    def __init__(self) -> None:
        """Start empty."""
        self._of: dict[str, int] = {}

    def created(self, arrival: Arrival, revisions: bytes) -> tuple[Event, ...]:
        """Return the events for created pods: the pods, then their start times."""
        pods = msgspec.structs.replace(arrival.pods, revisions=revisions)
        if not arrival.starts_ms:
            return (pods,)
        pairs = zip(split(arrival.pods.uids), unpack(arrival.starts_ms).tolist(), strict=True)
        found = {uid: start_ms for uid, start_ms in pairs if start_ms}
        self._of |= found
        return (pods, *_events_of(found))

    def of(self, pods: Container[str]) -> tuple[PodsStartedSeen, ...]:
        """Return the start times of these pods as events."""
        return _events_of({uid: start_ms for uid, start_ms in self._of.items() if uid in pods})


def _events_of(starts_ms: dict[str, int]) -> tuple[PodsStartedSeen, ...]:
    if not starts_ms:
        return ()
    return (PodsStartedSeen(join(starts_ms), pack(starts_ms.values())),)
