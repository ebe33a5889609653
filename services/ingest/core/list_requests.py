"""Requests for lists, ingest's only effect."""

from services.ingest.core.state import IngestState
from shared.events.ingest import ListAsked
from shared.model.ids import EffectId


def ask(state: IngestState, kind: str) -> None:
    """Request a list; it replaces an older request for the same kind."""
    for effect in [e for e, asked in state.effects.items() if asked.kind == kind]:
        del state.effects[effect]
    event = ListAsked(EffectId(state.next_effect), kind)
    state.next_effect += 1
    state.effects[event.effect] = event
    state.outbox.append(event)
