"""`--config FILE`: the profiles of a KubeSchedulerConfiguration as options of the services."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from muster.cli.errors import UsageFault
from shared.configuration.scheduler_config import read_config
from shared.extenders.calls import HttpBinders, HttpExtenders, ObjectSource
from shared.extenders.port import Binders, ExtenderCalls
from shared.extenders.values import CALLED, Extender
from shared.model.cluster_event_kinds import KINDS, awaited
from shared.model.objects import SpreadConstraint
from shared.model.preemption.post_filter import LAST, NOWHERE
from shared.model.profile import Configuration, CustomPlugin, Profile
from shared.model.release import DEFAULT_OPTIONS, V1_35, ReleaseOptions
from shared.model.world import World
from shared.ports.bind_plugin import BindPlugin
from shared.scheduling.api.custom.plugin import PLUGINS, registered

PLUGIN = "PodTopologySpread"
NAMED_MAX = 3
log = logging.getLogger("muster.worlds")

Options = dict[str, dict[str, Any]]
"""The options of each service that differ from their defaults."""


def read_profiles(
    path: Path | None, names: Sequence[str] = (), release: ReleaseOptions = DEFAULT_OPTIONS
) -> Configuration | None:
    """Return the file's configuration, with the profiles of these names, or all, as a release reads
    it. None without a file. Raises WorldError, UsageFault.
    """
    CALLED.clear()
    if path is None:
        for name in PLUGINS:
            raise UsageFault(f"--plugin: {name} needs a --config with a profile that enables it")
        return None
    found = read_config(path, release.release())
    CALLED[:] = found.extenders
    enabled = {one.name for profile in found.profiles for one in _plugins_of(profile)}
    for name in PLUGINS:
        if name not in enabled:
            raise UsageFault(f"--plugin: no profile of {path} enables {name}")
    known = [profile.name for profile in found.profiles]
    for name in names:
        if name not in known:
            raise UsageFault(f"--scheduler-name {name}: {path} has {', '.join(known)}")
    chosen = tuple(one for one in found.profiles if not names or one.name in names)
    return msgspec.structs.replace(found, profiles=chosen)


def _plugins_of(profile: Profile) -> tuple[CustomPlugin, ...]:
    """Return all users' plugins that the profile enables."""
    sorting = () if profile.queue_sort is None else (profile.queue_sort,)
    at_bind = (*profile.permit, *profile.pre_bind, *profile.bind, *profile.post_bind)
    return (
        *profile.custom,
        *profile.pre_enqueue,
        *sorting,
        *profile.reserve,
        *profile.post_filter,
        *at_bind,
    )


def extender_calls_of(config: Configuration | None, source: ObjectSource) -> ExtenderCalls | None:
    """Return the caller of a configuration's extenders; `source` has the objects that they get."""
    return HttpExtenders(source) if config is not None and config.extenders else None


def binders_of(config: Configuration | None, writes: bool) -> Binders | None:
    """Return the caller of the extender that binds. `writes`: it, like bind plugins, knows the
    cluster and writes to it.
    """
    if config is None:
        return None
    has_binder = _binder(config) is not None or any(profile.bind for profile in config.profiles)
    return HttpBinders(writes) if has_binder else None


def _binder(config: Configuration) -> Extender | None:
    return next((one for one in config.extenders if one.bind_verb), None)


def scheduler_names(config: Configuration | None, names: Sequence[str]) -> list[str]:
    """Return the scheduler names of our pods: those of the profiles, or of the command line."""
    return list(names) if config is None else [profile.name for profile in config.profiles]


def with_profiles(options: Options, config: Configuration | None) -> Options:
    """Return the services' options with those of the file; an option that is set wins."""
    from services.binding.core.config import Config as Binding
    from services.ingest.core.config import Config as Ingest
    from services.placement.core.config import Config as Placement
    from services.queueing.core.config import Config as Queueing

    found: dict[str, msgspec.Struct] = {"ingest": Ingest(default_spread=True, volumes=True)}
    if config is not None:
        profiles = config.profiles
        calm = tuple(profile.name for profile in profiles if not profile.makes_room)
        version = options.get("queueing", {}).get("compatibility", V1_35)
        wakes = _wakes(profiles, version)
        found = {
            "ingest": Ingest(
                schedulers=tuple(scheduler_names(config, ())),
                default_spread=any(map(spreads_by_default, profiles)),
                volumes=True,
                pre_enqueue={one.name: one.pre_enqueue for one in profiles if one.pre_enqueue},
                queue_sort=profiles[0].queue_sort,  # all profiles have the same
                wakes=tuple(sorted({kind for kinds in wakes.values() for kind in kinds})),
            ),
            "queueing": Queueing(
                backoff_initial_ms=config.backoff_initial_ms,
                backoff_max_ms=config.backoff_max_ms,
                preemption=len(calm) < len(profiles),
                preemption_except=calm if len(calm) < len(profiles) else (),
                claims_except=tuple(one.name for one in profiles if one.claims == NOWHERE),
                claims_last=tuple(one.name for one in profiles if one.claims == LAST),
                wakes=wakes,
            ),
            "placement": Placement(profiles=profiles, extenders=config.extenders),
            "binding": Binding(
                permit={one.name: one.permit for one in profiles if one.permit},
                pre_bind={one.name: one.pre_bind for one in profiles if one.pre_bind},
                bind={one.name: one.bind for one in profiles if one.bind},
                post_bind={one.name: one.post_bind for one in profiles if one.post_bind},
                binder=_binder(config),
                preempters=tuple(one for one in config.extenders if one.preempt_verb),
            ),
        }
    set_here = {name: _set_options(one) for name, one in found.items()}
    return options | {name: more | options.get(name, {}) for name, more in set_here.items() if more}


def _set_options(config: msgspec.Struct) -> dict[str, Any]:
    """Return the options that differ from their defaults."""
    usual, found = msgspec.to_builtins(type(config)()), msgspec.to_builtins(config)
    return {name: value for name, value in found.items() if value != usual[name]}


def _wakes(profiles: Sequence[Profile], version: str) -> dict[str, tuple[str, ...]]:
    """Return the events that wake pods which users' permit plugins reject."""
    found: dict[str, tuple[str, ...]] = {}
    for one in (plugin for profile in profiles for plugin in profile.permit):
        kind = registered(one).__class__
        assert issubclass(kind, BindPlugin), f"{one.name} is no BindPlugin"
        found[one.name] = awaited(KINDS if kind.wakes is None else kind.wakes, version)
    return found


def spreads_by_default(profile: Profile) -> bool:
    """Return whether pods without constraints of their own are spread by the objects that select
    them.
    """
    has_any = profile.default_spread is None or bool(profile.default_spread)
    return has_any and (PLUGIN in profile.filters or profile.weight(PLUGIN) > 0)


def hard_by_default(profile: Profile) -> tuple[SpreadConstraint, ...]:
    """Return the default constraints that must hold."""
    if PLUGIN not in profile.filters:
        return ()
    return tuple(one for one in profile.default_spread or () if one.hard)


def require_profiles(world: World, config: Configuration | None) -> None:
    """Check that every pod of a world has a profile: no other scheduler would take it. Raises
    UsageFault.
    """
    known = None if config is None else scheduler_names(config, ())
    for arrival in world.arrivals if known is not None else ():
        name = arrival.pods.spec.scheduler
        if known is not None and name not in known:
            first = arrival.pods.names.partition("\n")[0]
            raise UsageFault(
                f"--config: no profile {name!r}, which pod {first} names: there is "
                f"{', '.join(known)}"
            )
