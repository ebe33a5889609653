"""Permit as a service: its core. It has no effects and observes nothing but other journals."""

from services.permit.core import PermitCore, parse_config
from shared.machine.runtime import QuietShell

__all__ = ["make_core", "make_shell", "parse_config"]


def make_core(placements: int) -> PermitCore:
    """The core for a mesh of so many placement shards."""
    return PermitCore(placements)


def make_shell() -> QuietShell:
    """Nothing goes out and nothing comes in but journals."""
    return QuietShell()
