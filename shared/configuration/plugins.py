"""The `plugins` of a profile: kube-scheduler's defaults merged with the file, and multiPoint
expanded over the extension points. Knows the names of plugins, not their effect.
"""

from collections.abc import Iterator

from msgspec import Struct

from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.model.profile import (
    FILTER,
    PERMIT,
    POINTS,
    PRE_ENQUEUE,
    PRE_FILTER,
    RESERVE,
    SCORE,
    WEIGHTS,
    default_plugins,
)
from shared.model.release import NODE_DECLARED_FEATURES, V1_35, V1_36, V1_37, Release
from shared.scheduling.api.custom.plugin import PLUGINS as USER_PLUGINS

MULTI_POINT = "multiPoint"
ALL = "*"
WEIGHT_MIN, WEIGHT_MAX = -(1 << 31), (1 << 31) - 1

_GENERATE, _SCORES, _GROUP_POST_FILTER = _GROUP_POINTS = (
    *("placementGenerate", "placementScore", "podGroupPostFilter"),
)
"""Points about pod groups, since 1.36, the last since 1.37: plugins may be named there, and do
nothing.
"""
_GROUP_PLUGINS = {
    "NodeResourcesFit": (_SCORES,),
    "DefaultPreemption": (_GROUP_POST_FILTER,),
    "DynamicResources": (_GROUP_POST_FILTER,),
}


def points_about_groups(release: Release) -> tuple[str, ...]:
    """Return the points about pod groups of a release."""
    if release.version >= V1_37:
        return _GROUP_POINTS
    return _GROUP_POINTS[:2] if release.version >= V1_36 else ()


def off_by_default(release: Release) -> dict[str, tuple[str, ...]]:
    """Return plugins behind feature gates that are off, with their points: they may be named, and
    do nothing.
    """
    at_gangs = (PRE_ENQUEUE, RESERVE, PERMIT) if release.version == V1_35 else (PRE_ENQUEUE, PERMIT)
    found: dict[str, tuple[str, ...]] = {"GangScheduling": at_gangs}
    if not release.has(NODE_DECLARED_FEATURES):
        found["NodeDeclaredFeatures"] = (PRE_FILTER, FILTER)
    if release.version >= V1_36:
        found |= {"TopologyPlacementGenerator": (_GENERATE,), "PodGroupPodsCount": (_SCORES,)}
    if release.version >= V1_37:
        found["DeferredPodScheduling"] = (PRE_FILTER, FILTER, PERMIT)
    return found


OTHERS = (
    *("GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"),
    "DeferredPodScheduling",
)
"""kube-scheduler's plugins that Muster does not have, of all releases."""
REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")


class Named(Struct, frozen=True):
    """An enabled plugin; weight 0: not given."""

    name: str
    weight: int = 0


class PluginSet(Struct, frozen=True):
    """The content of one key of `plugins`."""

    enabled: tuple[Named, ...]
    disabled: frozenset[str]


def points_of(name: str, release: Release) -> tuple[str, ...] | None:
    """Return the extension points of a plugin, kube-scheduler's or a user's; None if there is no
    such plugin.
    """
    plugin = USER_PLUGINS.get(name)
    return default_plugins(release).get(name) if plugin is None else plugin.points


def expanded(plugins: Fields, release: Release) -> dict[str, tuple[Named, ...]]:
    """Return the plugins of each point, in order, with weights. Raises WorldError."""
    about_groups = points_about_groups(release)
    plugins.only((*POINTS, *about_groups, MULTI_POINT))
    for point in about_groups:
        plugin_set(plugins, point, release)
    multi = PluginSet(_merged(plugin_set(plugins, MULTI_POINT, release), release), frozenset())
    sets = {point: plugin_set(plugins, point, release) for point in POINTS}
    found = {point: _at_point(point, sets[point], multi, release) for point in POINTS}
    # A weight at score overrides one in multiPoint; the default is 1.
    weights = {one.name: one.weight or 1 for one in (*multi.enabled, *sets[SCORE].enabled)}
    found[SCORE] = tuple(Named(one.name, weights[one.name]) for one in found[SCORE])
    return found


def plugin_set(plugins: Fields, point: str, release: Release) -> PluginSet:
    """Return the file's content for one point."""
    fields = plugins.child(point)
    fields.only(("enabled", "disabled"))
    disabled = []
    for one in fields.children("disabled"):
        one.only(("name", "weight"))
        one.integer("weight", 0, WEIGHT_MIN, WEIGHT_MAX)
        disabled.append(one.text("name"))
    return PluginSet(tuple(_enabled(fields, point, release)), frozenset(disabled))


def _enabled(fields: Fields, point: str, release: Release) -> Iterator[Named]:
    seen: set[str] = set()
    off, about_groups = off_by_default(release), points_about_groups(release)
    for one in fields.children("enabled"):
        one.only(("name", "weight"))
        name = one.required_text("name")
        if name in REMOVED:
            raise one.error(
                "name", f"{name} is no longer a plugin: NodeVolumeLimits took its place"
            )
        points = off.get(name) or points_of(name, release)
        if points is None:
            raise one.error("name", f"there is no plugin {shown(name)}")
        if point in about_groups:
            points = (*points, *_GROUP_PLUGINS.get(name, ()))
        if point != MULTI_POINT and point not in points:
            raise one.error("name", f"{name} does not extend {point}")
        if name in seen:
            raise one.error("name", f"{name} is enabled twice")
        seen.add(name)
        lowest = 0 if point in (SCORE, MULTI_POINT, _SCORES) else WEIGHT_MIN
        weight = one.integer("weight", 0, lowest, WEIGHT_MAX)
        if name not in off:
            yield Named(name, weight)


def _merged(custom: PluginSet, release: Release) -> tuple[Named, ...]:
    """Merge multiPoint: a default that the file names keeps its place with the file's values."""
    named = {one.name: one for one in custom.enabled}
    defaults = [Named(name, WEIGHTS.get(name, 0)) for name in default_plugins(release)]
    kept = [
        named.pop(one.name, one)
        for one in (() if ALL in custom.disabled else defaults)
        if one.name not in custom.disabled
    ]
    return (*kept, *named.values())


def _at_point(
    point: str, at_point: PluginSet, multi: PluginSet, release: Release
) -> tuple[Named, ...]:
    """Return the plugins named both at the point and in multiPoint, then the others of multiPoint,
    then the others named at the point.
    """
    if ALL in at_point.disabled:
        return at_point.enabled
    able = [one for one in multi.enabled if point in (points_of(one.name, release) or ())]
    spread = {one.name for one in able if one.name not in at_point.disabled}
    named = {one.name for one in at_point.enabled}
    first = [one for one in at_point.enabled if one.name in spread]
    middle = [one for one in able if one.name in spread - named]
    last = [one for one in at_point.enabled if one.name not in spread]
    return (*first, *middle, *last)
