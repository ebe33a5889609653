"""Preemption's options, their defaults and bounds; nothing else."""

from typing import Any

import msgspec
from msgspec import Struct


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """`rounds_max`: dry runs per ask. `victims_ms_max`: how long after its eviction a victim may
    stay before the nomination is given up, and how long a freed place is kept for its preemptor.
    """

    rounds_max: int = 3
    victims_ms_max: int = 60_000


def parse_config(options: dict[str, Any]) -> Config:
    """Preemption's options, checked. Raises ValueError naming the option and the rule."""
    try:
        config = msgspec.convert(options, Config)
    except msgspec.ValidationError as error:
        raise ValueError(f"preemption: {error}") from error
    for name in Config.__struct_fields__:
        if getattr(config, name) < 1:
            raise ValueError(f"preemption: {name} must be >= 1, is {getattr(config, name)}")
    return config
