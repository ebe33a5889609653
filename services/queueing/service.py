"""Queueing as a service: its core. It has no effects and observes nothing: its shell is quiet."""

from services.queueing.core import QueueingCore


def make_core(placements: int) -> QueueingCore:
    """The core for a mesh of so many placement shards."""
    return QueueingCore(placements)
