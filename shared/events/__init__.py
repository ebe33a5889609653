"""One module per journal, with its events; `observed` holds what comes from outside.

A class in one of these modules is an event of that journal: no list names it again.
"""

from functools import reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Any, TypeAlias

from shared.events.base import Configured, Event
from shared.model.ids import SERVICES


def _types_in(module: str) -> tuple[type[Event], ...]:
    """Return the event classes that a module of this package defines, in its order."""
    name = f"{__name__}.{module}"
    kinds = (one for one in vars(import_module(name)).values() if isinstance(one, type))
    return tuple(one for one in kinds if issubclass(one, Event) and one.__module__ == name)


EVENT_TYPES: dict[str, tuple[type[Event], ...]] = {
    **{service: _types_in(service) for service in SERVICES},
    "observed": (Configured, *_types_in("observed")),
}
"""Service -> types of the events in its journals; `observed` -> those of observations."""

EVENTS: dict[str, Any] = {service: reduce(or_, EVENT_TYPES[service]) for service in SERVICES}
"""Service -> union of the events in its journals."""

if TYPE_CHECKING:
    Fact: TypeAlias = Event
    Observation: TypeAlias = Event
else:
    Fact = EVENTS["ingest"]
    Observation = reduce(or_, EVENT_TYPES["observed"])
