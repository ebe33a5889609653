"""Preemption as a service: its core. It has no effects and observes nothing: binding evicts."""

from services.preemption.core import PreemptionCore, parse_config
from shared.machine.runtime import QuietShell

__all__ = ["make_core", "make_shell", "parse_config"]


def make_core(placements: int) -> PreemptionCore:
    """The core for a mesh of so many placement shards."""
    return PreemptionCore(placements)


def make_shell() -> QuietShell:
    """Nothing goes out and nothing comes in but journals."""
    return QuietShell()
