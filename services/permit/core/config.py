"""Permit's options, their defaults and bounds; nothing else."""

from typing import Any

from msgspec import Struct

from shared.model.options import read_options, require_positive


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """`plans_max`: tries to hold within one attempt. `step_pods_max`: members looked at in one
    decide call, which bounds its time.
    """

    plans_max: int = 2
    step_pods_max: int = 20_000


def parse_config(options: dict[str, Any]) -> Config:
    """Permit's options, checked. Raises ValueError naming the option and the rule."""
    config = read_options("permit", options, Config)
    require_positive("permit", config, Config.__struct_fields__)
    return config
