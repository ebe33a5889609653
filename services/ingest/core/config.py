"""Ingest's options: what can be set, and the one line that says what is wrong with them."""

from typing import Any

import msgspec

from shared.model.options import read_options
from shared.model.profile import CustomPlugin


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`schedulers` are the spec.schedulerName values whose pending pods are ours (empty = all);
    `held_names_max` bounds the unknown node names that pods may wait for. With `default_spread`,
    pods without constraints of their own are spread by what selects them (profiles say how). With
    `volumes` shards are told of claims and volumes; journals of before they were do without.
    `pre_enqueue` (by scheduler) and `queue_sort` are plugins of users. `wakes` are the kinds of
    events that queueing is told of.
    """

    schedulers: tuple[str, ...] = ()
    held_names_max: int = 20_000
    default_spread: bool = False
    volumes: bool = False
    pre_enqueue: dict[str, tuple[CustomPlugin, ...]] = {}
    queue_sort: CustomPlugin | None = None
    wakes: tuple[str, ...] = ()


def parse_config(options: dict[str, Any]) -> Config:
    """Raises ValueError naming the option and the rule it breaks."""
    config = read_options("ingest", options, Config)
    if config.held_names_max < 0:
        raise ValueError("ingest: held_names_max must be >= 0")
    return config
