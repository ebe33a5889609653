"""Preemption's options, their defaults and bounds; nothing else."""

from typing import Any

from msgspec import Struct

from shared.model.options import read_options, require_positive

KINDS_MAX = 8  # signatures that shards are asked about side by side


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """`rounds_max`: dry runs per ask. `victims_ms_max`: how long after its eviction a victim may
    stay before the nomination is given up: longer than pods are commonly given to end, since
    whoever comes first gets the room then. `place_ms_max`: how long a freed place is kept.
    """

    rounds_max: int = 3
    victims_ms_max: int = 600_000
    place_ms_max: int = 60_000


def parse_config(options: dict[str, Any]) -> Config:
    """Preemption's options, checked. Raises ValueError naming the option and the rule."""
    config = read_options("preemption", options, Config)
    require_positive("preemption", config, Config.__struct_fields__)
    return config
