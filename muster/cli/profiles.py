"""`--config FILE`: the profiles of a KubeSchedulerConfiguration as options of the services."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from muster.cli.errors import UsageFault
from shared.configuration.scheduler_config import read_config
from shared.extenders.calls import HttpBinders, HttpExtenders, ObjectSource
from shared.extenders.port import Binders, Judges
from shared.extenders.values import CALLED, Extender
from shared.model.cluster_event_kinds import KINDS
from shared.model.objects import SpreadConstraint
from shared.model.post_filter import LAST, NOWHERE
from shared.model.profile import Configuration, CustomPlugin, Profile
from shared.model.world import World
from shared.ports.bind_plugin import BindPlugin
from shared.scheduling.api import custom
from shared.scheduling.api.custom import registered

PLUGIN = "PodTopologySpread"


def read_profiles(
    path: Path | None, names: Sequence[str] = (), placements: int = 1
) -> Configuration | None:
    """What the file says; of its profiles those with these names, or all. None without a file.
    Raises WorldError, UsageFault.
    """
    CALLED.clear()
    if path is None:
        for name in custom.PLUGINS:
            raise UsageFault(f"--plugin: {name} needs a --config with a profile that enables it")
        return None
    found = read_config(path)
    CALLED[:] = found.extenders
    enabled = {one.name for profile in found.profiles for one in _plugins_of(profile)}
    for name in custom.PLUGINS:
        if name not in enabled:
            raise UsageFault(f"--plugin: no profile of {path} enables {name}")
    known = [profile.name for profile in found.profiles]
    for name in names:
        if name not in known:
            raise UsageFault(f"--scheduler-name {name}: {path} has {', '.join(known)}")
    chosen = tuple(one for one in found.profiles if not names or one.name in names)
    for profile in chosen if placements > 1 else ():
        if hard_by_default(profile):
            raise UsageFault(
                f"--config {path}: profile {profile.name} has default constraints with "
                "DoNotSchedule, which need one placement partition: no shard of several knows "
                "all pods"
            )
    return msgspec.structs.replace(found, profiles=chosen)


def _plugins_of(profile: Profile) -> tuple[CustomPlugin, ...]:
    """All plugins of users that it enables anywhere."""
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


def judges_of(config: Configuration | None, source: ObjectSource) -> Judges | None:
    """Who asks the extenders of a configuration; `source` has the objects that they get."""
    return HttpExtenders(source) if config is not None and config.extenders else None


def binders_of(config: Configuration | None, writes: bool) -> Binders | None:
    """Who asks the extender that binds. `writes`: it, as plugins that bind, knows the cluster and
    writes to it.
    """
    if config is None:
        return None
    somebody = _binder(config) is not None or any(profile.bind for profile in config.profiles)
    return HttpBinders(writes) if somebody else None


def _binder(config: Configuration) -> Extender | None:
    return next((one for one in config.extenders if one.bind_verb), None)


def scheduler_names(config: Configuration | None, names: Sequence[str]) -> list[str]:
    """Whose pods are ours: those of the profiles, or of the names on the command line."""
    return list(names) if config is None else [profile.name for profile in config.profiles]


def with_profiles(options: dict[str, Any], config: Configuration | None) -> dict[str, Any]:
    """The services' options with what the file says; an option that is set counts more."""
    if config is None:
        ingest = {"default_spread": True, "volumes": True, **options.get("ingest", {})}
        return {**options, "ingest": ingest}
    profiles = config.profiles
    queueing: dict[str, Any] = {
        "backoff_initial_ms": config.backoff_initial_ms,
        "backoff_max_ms": config.backoff_max_ms,
    }
    calm = tuple(profile.name for profile in profiles if not profile.makes_room)
    if len(calm) == len(profiles):
        queueing["preemption"] = False
    elif calm:
        queueing["preemption_except"] = calm
    for option, claims in (("claims_except", NOWHERE), ("claims_last", LAST)):
        if names := tuple(one.name for one in profiles if one.claims == claims):
            queueing[option] = names
    wakes = _wakes(profiles)
    if wakes:
        queueing["wakes"] = wakes
    more = {
        "ingest": {
            "schedulers": scheduler_names(config, ()),
            "default_spread": any(map(spreads_by_default, profiles)),
            "volumes": True,
            **_queue_plugins(profiles),
            **({"wakes": _all_of(wakes)} if wakes else {}),
        },
        "queueing": queueing,
        "placement": {"profiles": msgspec.to_builtins(profiles)},
    }
    at_bind = _bind_plugins(profiles)
    binder = _binder(config)
    if binder is not None:
        at_bind["binder"] = msgspec.to_builtins(binder)
    preempters = [one for one in config.extenders if one.preempt_verb]
    if preempters:
        at_bind["preempters"] = msgspec.to_builtins(preempters)
    if at_bind:
        more["binding"] = at_bind
    if config.extenders:
        more["placement"]["extenders"] = msgspec.to_builtins(config.extenders)
    return {**options, **{name: {**found, **options.get(name, {})} for name, found in more.items()}}


def _wakes(profiles: Sequence[Profile]) -> dict[str, list[str]]:
    """For what pods wait that permit plugins of users refuse."""
    found: dict[str, list[str]] = {}
    for one in (plugin for profile in profiles for plugin in profile.permit):
        kind = registered(one).__class__
        assert issubclass(kind, BindPlugin), f"{one.name} decides, and does not act"
        found[one.name] = list(KINDS if kind.wakes is None else kind.wakes)
    return found


def _all_of(wakes: dict[str, list[str]]) -> list[str]:
    return sorted({kind for kinds in wakes.values() for kind in kinds})


def _queue_plugins(profiles: Sequence[Profile]) -> dict[str, Any]:
    """Who decides what is queued and in which order, where plugins of users do."""
    gating = {one.name: one.pre_enqueue for one in profiles if one.pre_enqueue}
    found: dict[str, Any] = {"pre_enqueue": gating} if gating else {}
    if profiles[0].queue_sort is not None:  # all profiles have the same
        found["queue_sort"] = profiles[0].queue_sort
    plain: dict[str, Any] = msgspec.to_builtins(found)
    return plain


def _bind_plugins(profiles: Sequence[Profile]) -> dict[str, Any]:
    """Who acts when pods are bound, where plugins of users do."""
    points = {
        "permit": {one.name: one.permit for one in profiles if one.permit},
        "pre_bind": {one.name: one.pre_bind for one in profiles if one.pre_bind},
        "bind": {one.name: one.bind for one in profiles if one.bind},
        "post_bind": {one.name: one.post_bind for one in profiles if one.post_bind},
    }
    found: dict[str, Any] = msgspec.to_builtins(points)
    return {point: plugins for point, plugins in found.items() if plugins}


def spreads_by_default(profile: Profile) -> bool:
    """Whether pods without constraints of their own are spread by what selects them."""
    has_any = profile.default_spread is None or bool(profile.default_spread)
    return has_any and (PLUGIN in profile.filters or profile.weight(PLUGIN) > 0)


def hard_by_default(profile: Profile) -> tuple[SpreadConstraint, ...]:
    """The default constraints that must hold."""
    if PLUGIN not in profile.filters:
        return ()
    return tuple(one for one in profile.default_spread or () if one.hard)


def require_profiles(world: World, config: Configuration | None) -> None:
    """Whether every pod of a world has a profile: nobody else would schedule it. Raises
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
