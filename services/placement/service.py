"""The shell of placement: a shard has no outside, so it only says how to own one."""

from services.placement.core import PlacementCore, parse_config
from shared.machine.runtime import QuietShell

__all__ = ["make_core", "make_shell", "parse_config"]


def make_core(shard: int, placements: int) -> PlacementCore:
    """The core of one shard."""
    return PlacementCore(shard, placements)


def make_shell() -> QuietShell:
    """Shards send nothing out and observe nothing."""
    return QuietShell()
