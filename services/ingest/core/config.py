"""Ingest's options and their bounds."""

import msgspec

from shared.model.options import Natural
from shared.model.profile import CustomPlugin


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ingest's options.

    `schedulers`: the values of spec.schedulerName whose pending pods are ours (empty: all).
    `held_names_max`: bound of unknown node names that pods may wait for. `default_spread`: pods
    without constraints of their own get the default spread of what selects them (profiles say how).
    `volumes`: shards get claims and volumes; older journals go without. `pre_enqueue` (by
    scheduler) and `queue_sort`: users' plugins. `wakes`: the kinds of events that queueing needs.
    """

    schedulers: tuple[str, ...] = ()
    held_names_max: Natural = 20_000
    default_spread: bool = False
    volumes: bool = False
    pre_enqueue: dict[str, tuple[CustomPlugin, ...]] = {}
    queue_sort: CustomPlugin | None = None
    wakes: tuple[str, ...] = ()
