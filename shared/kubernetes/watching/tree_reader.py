"""Reads objects that make a tree, and says which of them break its rules."""

from typing import Protocol

from shared.events.base import Event
from shared.kubernetes.client.kinds import Kind
from shared.kubernetes.watching.resources import object_reader


class Tree(Protocol):
    """The objects that the whole process has read."""

    def faults_after(self, events: list[Event]) -> list[Event]:
        """Return the objects that break a rule of the tree since these events."""
        ...


class TreeReader:
    """The reader of one kind."""

    def __init__(self, kind: Kind, known: Tree) -> None:
        """Wrap a reader of objects."""
        self.kind, self.item = kind.name, kind.item
        self._reader, self._known = object_reader(kind), known
        self.seen, self.gone = self._reader.seen, self._reader.gone
        self.reject, self.forget = self._reader.reject, self._reader.forget
        self.is_urgent = self._reader.is_urgent

    def drain(self) -> list[Event]:
        """Return the events of the objects read since the last call, and the faults of the tree."""
        events = self._reader.drain()
        return [*events, *self._known.faults_after(events)] if events else []
