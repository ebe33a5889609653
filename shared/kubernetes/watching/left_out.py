"""Objects of a live API that are left out because they cannot be used, and why.

The journal has each one as `InputRejected`. This list is for people who look for a node that is
Ready and does not count. It covers what this process has listed and watched.
"""

import logging
from collections import Counter
from typing import Any

from shared.events.base import Event
from shared.events.observed import InputRejected
from shared.kubernetes.watching.resources import Reader, name_of
from shared.model.text import quoted

POD = "Pod"
FINISHED = ("Succeeded", "Failed")
REMEMBERED_MAX = 10_000

log = logging.getLogger("muster.kube")


class LeftOut:
    """Objects by kind and name, each with the rule that it breaks."""

    def __init__(self) -> None:
        """Start empty."""
        self._held: dict[str, str] = {}
        self._logged: dict[tuple[str, str], bool] = {}

    def __bool__(self) -> bool:
        """Return whether anything is left out."""
        return bool(self._held)

    def add(self, what: str, text: str) -> None:
        """Add an object, `what` being KIND NAME or KIND NAMESPACE/NAME. Each text is logged once
        per object. Pods are not logged: there may be very many, and their condition has the text.
        """
        if len(self._held) < REMEMBERED_MAX:
            self._held[what] = text
        if _kind_of(what) == POD or (what, text) in self._logged:
            return
        if len(self._logged) >= REMEMBERED_MAX:
            self._logged.clear()
        self._logged[what, text] = True
        log.warning("%s is left out: %s", what, quoted(text))

    def drop(self, what: str) -> None:
        """Remove an object that can be used now or was deleted."""
        self._held.pop(what, None)

    def forget(self, kind: str) -> None:
        """Remove all objects of a kind, because it is listed again."""
        self._held = {what: text for what, text in self._held.items() if _kind_of(what) != kind}

    def counts(self) -> dict[str, int]:
        """Return the number of objects left out, by kind."""
        return dict(sorted(Counter(map(_kind_of, self._held)).items()))


class NotingReader:
    """A reader that records the objects it leaves out."""

    def __init__(self, reader: Reader, left_out: LeftOut) -> None:
        """Wrap a reader."""
        self.kind, self.item = reader.kind, reader.item
        self.reject, self.forget = reader.reject, reader.forget
        self.is_urgent = reader.is_urgent
        self._reader, self._left_out = reader, left_out

    def seen(self, item: Any) -> None:
        """Read an object that was added or changed."""
        if self._left_out and (self.kind != POD or _is_over(item)):
            self._left_out.drop(self._what(item))
        self._reader.seen(item)

    def gone(self, item: Any) -> None:
        """Read the last state of a deleted object."""
        if self._left_out:
            self._left_out.drop(self._what(item))
        self._reader.gone(item)

    def drain(self) -> list[Event]:
        """Return the events of the objects read since the last call."""
        events = self._reader.drain()
        for event in events:
            if isinstance(event, InputRejected):
                text = f"{event.field}: {event.rule}" if event.field else event.rule
                self._left_out.add(event.what, text)
        return events

    def _what(self, item: Any) -> str:
        return name_of(self.kind, item.metadata)


def _is_over(pod: Any) -> bool:
    """Return whether a pod no longer waits. A waiting pod is refused once and then read again."""
    return bool(pod.spec.nodeName) or pod.status.phase in FINISHED


def _kind_of(what: str) -> str:
    return what.partition(" ")[0]
