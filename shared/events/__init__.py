"""One module per journal: its events and their union; `observed` holds what comes from outside."""

from typing import Any

from shared.events.binding import BindingEvent
from shared.events.ingest import IngestEvent
from shared.events.observed import Observation
from shared.events.permit import PermitEvent
from shared.events.placement import PlacementEvent
from shared.events.preemption import PreemptionEvent
from shared.events.queueing import QueueingEvent

EVENTS: dict[str, Any] = {
    "ingest": IngestEvent,
    "queueing": QueueingEvent,
    "placement": PlacementEvent,
    "permit": PermitEvent,
    "preemption": PreemptionEvent,
    "binding": BindingEvent,
}
"""Service -> union of the events its journals hold."""

__all__ = ["EVENTS", "Observation"]
