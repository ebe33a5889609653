"""Kubernetes timestamps."""

from datetime import datetime


def time_ms(text: str) -> int:
    """Return the milliseconds since the epoch of a time such as 2026-01-02T03:04:05Z. Raises
    ValueError.
    """
    return int(datetime.fromisoformat(text).timestamp() * 1000)
