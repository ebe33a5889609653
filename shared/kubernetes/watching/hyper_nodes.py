"""Reads HyperNodes, and says which of them ingest leaves out of the trees."""

from shared.events.base import Event
from shared.events.observed import InputRejected, ObjectsDeletedSeen, ObjectsSeen
from shared.kubernetes.client.kinds import HYPER_NODES
from shared.kubernetes.watching.left_out import LeftOut
from shared.model.cluster_objects import HyperNode
from shared.model.columns import split
from shared.model.groups.hyper_nodes import Fault, Trees


class HyperNodes:
    """The HyperNodes that were read, by uid, and their faults, by name."""

    def __init__(self, left_out: LeftOut) -> None:
        """Start empty."""
        self._left_out = left_out
        self._known: dict[str, HyperNode] = {}
        self._faults: dict[str, Fault] = {}

    def forget(self) -> None:
        """Forget all: a list follows."""
        self._known.clear()
        self._faults.clear()

    def faults_after(self, events: list[Event]) -> list[Event]:
        """Return the HyperNodes that cannot be used since these events, or were read in them."""
        read: set[str] = set()
        for event in events:
            if isinstance(event, ObjectsSeen):
                found = [one for one in event.objects if isinstance(one, HyperNode)]
                self._known.update((one.uid, one) for one in found)
                read.update(one.name for one in found)
            elif isinstance(event, ObjectsDeletedSeen):
                for uid in split(event.uids):
                    self._known.pop(uid, None)
        before, self._faults = self._faults, Trees(self._known.values()).faults
        for name in before:
            if name not in self._faults:
                self._left_out.drop(_what(name))
        return [
            InputRejected(_what(name), *fault)
            for name, fault in self._faults.items()
            if name in read or before.get(name) != fault
        ]


def _what(name: str) -> str:
    return f"{HYPER_NODES.name} {name}"
