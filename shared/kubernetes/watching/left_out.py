"""What is left out now: objects of a live API that cannot be used as they are, and why.

The journal has each as `InputRejected`; this is for people who look for a node that is Ready and
does not count. It follows what this process has listed and watched.
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
        """Nothing is left out."""
        self._held: dict[str, str] = {}
        self._logged: dict[tuple[str, str], bool] = {}

    def __bool__(self) -> bool:
        """Whether anything is."""
        return bool(self._held)

    def add(self, what: str, text: str) -> None:
        """`what` is KIND NAME or KIND NAMESPACE/NAME. Each text is logged once for each object; not
        those of pods, which have it in their condition, and of which there may be very many.
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
        """It can be used now, or is gone."""
        self._held.pop(what, None)

    def forget(self, kind: str) -> None:
        """All of a kind, which is listed again."""
        self._held = {what: text for what, text in self._held.items() if _kind_of(what) != kind}

    def counts(self) -> dict[str, int]:
        """How many are left out, by kind."""
        return dict(sorted(Counter(map(_kind_of, self._held)).items()))


class NotingReader:
    """A reader that notes what is left out."""

    def __init__(self, reader: Reader, left_out: LeftOut) -> None:
        """Around a reader."""
        self.kind, self.item = reader.kind, reader.item
        self.reject, self.forget = reader.reject, reader.forget
        self._reader, self._left_out = reader, left_out

    def seen(self, item: Any) -> None:
        """An object as it is now."""
        if self._left_out and (self.kind != POD or _is_over(item)):
            self._left_out.drop(self._what(item))
        self._reader.seen(item)

    def gone(self, item: Any) -> None:
        """A deleted object's last state."""
        if self._left_out:
            self._left_out.drop(self._what(item))
        self._reader.gone(item)

    def take(self) -> list[Event]:
        """What the objects since the last call came to."""
        events = self._reader.take()
        for event in events:
            if isinstance(event, InputRejected):
                text = f"{event.field}: {event.rule}" if event.field else event.rule
                self._left_out.add(event.what, text)
        return events

    def _what(self, item: Any) -> str:
        return name_of(self.kind, item.metadata)


def _is_over(pod: Any) -> bool:
    """Whether a pod no longer waits. A pod that waits is refused once, and then seen again."""
    return bool(pod.spec.nodeName) or pod.status.phase in FINISHED


def _kind_of(what: str) -> str:
    return what.partition(" ")[0]
