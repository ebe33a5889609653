"""Reads Queues, and says which of them keep the others from being a tree."""

from collections.abc import Callable

from shared.events.base import Event
from shared.events.observed import InputRejected, ObjectsDeletedSeen, ObjectsSeen
from shared.kubernetes.client.kinds import QUEUES
from shared.kubernetes.watching.left_out import LeftOut
from shared.model.cluster_objects import Queue
from shared.model.columns import split
from shared.model.queues import Fault, tree_faults


class Queues:
    """The Queues that were read, by uid, and their faults, by name."""

    def __init__(self, left_out: LeftOut, show: Callable[[str, str], None]) -> None:
        """Start empty. `show` writes into a Queue's status what is wrong with it."""
        self._left_out, self._show = left_out, show
        self._known: dict[str, Queue] = {}
        self._faults: dict[str, Fault] = {}

    def forget(self) -> None:
        """Forget all: a list follows."""
        self._known.clear()
        self._faults.clear()

    def faults_after(self, events: list[Event]) -> list[Event]:
        """Return the Queues that break a rule of the tree since these events, and have their status
        written.
        """
        read: dict[str, None] = {}
        for event in events:
            if isinstance(event, ObjectsSeen):
                found = [one for one in event.objects if isinstance(one, Queue)]
                self._known.update((one.uid, one) for one in found)
                read.update((one.name, None) for one in found)
            elif isinstance(event, ObjectsDeletedSeen):
                for uid in split(event.uids):
                    self._known.pop(uid, None)
            elif isinstance(event, InputRejected):
                fault = f"{event.field}: {event.rule}"
                self._show(event.what.removeprefix(f"{QUEUES.name} "), fault)
        before, self._faults = self._faults, tree_faults(self._known.values())
        for name in before:
            if name not in self._faults:
                self._left_out.drop(_what(name))
        names = {one.name: None for one in self._known.values()}
        for name in names:
            fault_of = self._faults.get(name)
            if name in read or before.get(name) != fault_of:
                self._show(name, ": ".join(fault_of) if fault_of else "")
        return [
            InputRejected(_what(name), *fault)
            for name, fault in self._faults.items()
            if name in read or before.get(name) != fault
        ]


def _what(name: str) -> str:
    return f"{QUEUES.name} {name}"
