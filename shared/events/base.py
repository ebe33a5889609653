"""The base of all events: a frozen struct with a published tag and its addressees.

Events are written as msgpack maps, so fields may be added with a default and never be renamed,
removed or given another meaning (schemas/golden holds records that must decode for ever).
"""

from typing import Any

from msgspec import Struct

from shared.model.text import snake_case


class Event(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag=snake_case):
    """Base of all events. `to` names the services (or single partitions) that read it; the owner of
    the journal always applies its own events. Events without readers keep the empty default.
    """

    def to(self) -> tuple[str, ...]:
        """Return the addressees: service names (every partition) or journal names (one
        partition).
        """
        return ()


class Configured(Event, frozen=True, gc=False):
    """The present configuration from here on (first event of each term, and at every change)."""

    config: dict[str, Any] = {}
