"""Permit as a service: its core. It has no effects and observes nothing, so it needs no shell."""

from services.permit.core import PermitCore


def make_core(placements: int) -> PermitCore:
    """The core for a mesh of so many placement shards."""
    return PermitCore(placements)
