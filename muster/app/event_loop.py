"""The event loop of all commands, and a setting of malloc that its connections need."""

import ctypes
from contextlib import suppress
from typing import Any

MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of mallopt(3)."""
LARGE_BYTES = 256 << 10


def loop_factory() -> Any:
    """Return a factory of uvloop loops if the platform has it, else of asyncio's."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def keep_large_blocks_apart() -> None:
    """Make glibc return large blocks to the system one by one.

    By default glibc raises this limit to the largest block freed so far. uvloop has a buffer of 256
    KiB for each TLS connection; as connections come and go, the holes made the heap three times as
    large as its contents.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, LARGE_BYTES)
