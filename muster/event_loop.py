"""Which event loop commands run on."""

from typing import Any


def loop_factory() -> Any:
    """Uvloop's loop where the platform has it, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
