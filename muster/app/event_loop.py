"""Which event loop commands run on, and what its connections need of the process."""

import ctypes
from contextlib import suppress
from typing import Any

MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of mallopt(3)."""
LARGE_BYTES = 256 << 10


def loop_factory() -> Any:
    """Uvloop's loop where the platform has it, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def keep_large_blocks_apart() -> None:
    """Give blocks of this size back to the system one by one, where the C library is glibc.

    By itself it raises the limit to the largest block that was freed. uvloop has a buffer of 256
    KiB for each TLS connection, and connections come and go: a heap with such holes was three times
    as large as what it held.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, LARGE_BYTES)
