"""Permit's options, their defaults and bounds; nothing else."""

from typing import Any

import msgspec
from msgspec import Struct


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """`plans_max`: tries to hold within one attempt. `step_pods_max`: members looked at in one
    decide call, which bounds its time.
    """

    plans_max: int = 2
    step_pods_max: int = 20_000


def parse_config(options: dict[str, Any]) -> Config:
    """Permit's options, checked. Raises ValueError naming the option and the rule."""
    try:
        config = msgspec.convert(options, Config)
    except msgspec.ValidationError as error:
        raise ValueError(f"permit: {error}") from error
    for name in Config.__struct_fields__:
        if getattr(config, name) < 1:
            raise ValueError(f"permit: {name} must be >= 1, is {getattr(config, name)}")
    return config
