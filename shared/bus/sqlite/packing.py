"""Decides which records are stored compressed."""

import time

import cramjam

ABOVE_BYTES = 64 << 10
"""Records of this size are always compressed, bytes. Measured in a flood: at 30 kB it costs a
quarter of the speed; at 110 kB and more the saved writes and syncs pay for it.
"""
CALM_ABOVE_BYTES = 512
CALM_BYTES = 128 << 10
"""While at most this many bytes are written in two seconds, smaller records are compressed too.
Records about many waiting pods repeat their messages and shrink to a quarter or less.
"""
WINDOW_S = 1.0
_ZSTD_LEVEL = 1


class Packing:
    """Counts the bytes written in this second and in the one before."""

    def __init__(self) -> None:
        """Start with nothing written."""
        self._began_s = 0.0
        self._bytes = self._bytes_before = 0

    def pack(self, payload: bytes) -> tuple[bytes, int]:
        """Return (stored bytes, the payload's size if compressed, else -1)."""
        above_bytes = CALM_ABOVE_BYTES if self._is_calm(len(payload)) else ABOVE_BYTES
        if len(payload) > above_bytes:
            packed = bytes(cramjam.zstd.compress(payload, _ZSTD_LEVEL))
            if len(packed) < len(payload):
                return packed, len(payload)
        return payload, -1

    def _is_calm(self, more_bytes: int) -> bool:
        now_s = time.monotonic()
        passed_s = now_s - self._began_s
        if passed_s >= WINDOW_S:
            self._bytes_before = self._bytes if passed_s < 2 * WINDOW_S else 0
            self._began_s, self._bytes = now_s, 0
        self._bytes += more_bytes
        return self._bytes_before + self._bytes <= CALM_BYTES
