"""The newest binds: what people may not have been told of when an owner died without a word.

Events for people wait in the sender's memory, and never more of them than are kept here.
"""

from services.binding.core.state import BindingState
from shared.events.binding import Bound
from shared.model.columns import ID_BYTES

PODS_MAX = 256


def note(state: BindingState, event: Bound) -> None:
    """Keep these, and as many of those before as there is room for."""
    recent = state.recent
    recent.append((state.now_ms, event.ids, event.nodes))
    state.recent_bytes += len(event.ids)
    while state.recent_bytes > PODS_MAX * ID_BYTES:
        at_ms, ids, nodes = recent.popleft()
        over = state.recent_bytes - PODS_MAX * ID_BYTES
        state.recent_bytes -= min(over, len(ids))
        if over < len(ids):
            recent.appendleft((at_ms, ids[over:], nodes[over:]))
