"""When pods of a simulated cluster were started: those that came with a time. No kubelet is
simulated, so who is bound later has none.
"""

from collections.abc import Container

import msgspec

from shared.events.base import Event
from shared.events.observed import PodsStartedSeen
from shared.model.columns import join, pack, split, unpack
from shared.model.world import Arrival


class Starts:
    """Times by uid, in ms since the epoch; of pods that are gone, too."""

    def __init__(self) -> None:
        """Nobody."""
        self._of: dict[str, int] = {}

    def created(self, arrival: Arrival, revisions: bytes) -> tuple[Event, ...]:
        """What is told of pods that are created now: themselves, then when they were started."""
        told = msgspec.structs.replace(arrival.pods, revisions=revisions)
        if not arrival.starts_ms:
            return (told,)
        pairs = zip(split(arrival.pods.uids), unpack(arrival.starts_ms).tolist(), strict=True)
        found = {uid: start_ms for uid, start_ms in pairs if start_ms}
        self._of |= found
        return (told, *_told(found))

    def of(self, pods: Container[str]) -> tuple[PodsStartedSeen, ...]:
        """What is told of these pods together."""
        return _told({uid: start_ms for uid, start_ms in self._of.items() if uid in pods})


def _told(starts_ms: dict[str, int]) -> tuple[PodsStartedSeen, ...]:
    if not starts_ms:
        return ()
    return (PodsStartedSeen(join(starts_ms), pack(starts_ms.values())),)
