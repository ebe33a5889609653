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
    PLUGINS,
    POINTS,
    PRE_ENQUEUE,
    PRE_FILTER,
    RESERVE,
    SCORE,
    WEIGHTS,
)
from shared.scheduling.api.custom.plugin import PLUGINS as USER_PLUGINS

MULTI_POINT = "multiPoint"
ALL = "*"
WEIGHT_MIN, WEIGHT_MAX = -(1 << 31), (1 << 31) - 1

OFF_BY_DEFAULT: dict[str, tuple[str, ...]] = {
    "GangScheduling": (PRE_ENQUEUE, RESERVE, PERMIT),
    "NodeDeclaredFeatures": (PRE_FILTER, FILTER),
}
"""Plugins behind feature gates that are off: they may be named, and do nothing."""
REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")


class Named(Struct, frozen=True):
    """An enabled plugin; weight 0: not given."""

    name: str
    weight: int = 0


DEFAULTS = tuple(Named(name, WEIGHTS.get(name, 0)) for name in PLUGINS)


class PluginSet(Struct, frozen=True):
    """The content of one key of `plugins`."""

    enabled: tuple[Named, ...]
    disabled: frozenset[str]


def points_of(name: str) -> tuple[str, ...] | None:
    """Return the extension points of a plugin, kube-scheduler's or a user's; None if there is no
    such plugin.
    """
    plugin = USER_PLUGINS.get(name)
    return PLUGINS.get(name) if plugin is None else plugin.points


def expanded(plugins: Fields) -> dict[str, tuple[Named, ...]]:
    """Return the plugins of each point, in order, with weights. Raises WorldError."""
    plugins.only((*POINTS, MULTI_POINT))
    multi = PluginSet(_merged(plugin_set(plugins, MULTI_POINT)), frozenset())
    sets = {point: plugin_set(plugins, point) for point in POINTS}
    found = {point: _at_point(plugins, point, sets[point], multi) for point in POINTS}
    # A weight at score overrides one in multiPoint; the default is 1.
    weights = {one.name: one.weight or 1 for one in (*multi.enabled, *sets[SCORE].enabled)}
    found[SCORE] = tuple(Named(one.name, weights[one.name]) for one in found[SCORE])
    return found


def plugin_set(plugins: Fields, point: str) -> PluginSet:
    """Return the file's content for one point."""
    fields = plugins.child(point)
    fields.only(("enabled", "disabled"))
    disabled = []
    for one in fields.children("disabled"):
        one.only(("name", "weight"))
        one.integer("weight", 0, WEIGHT_MIN, WEIGHT_MAX)
        disabled.append(one.text("name"))
    return PluginSet(tuple(_enabled(fields, point)), frozenset(disabled))


def _enabled(fields: Fields, point: str) -> Iterator[Named]:
    seen: set[str] = set()
    for one in fields.children("enabled"):
        one.only(("name", "weight"))
        name = one.required_text("name")
        if name in REMOVED:
            raise one.error(
                "name", f"{name} is no longer a plugin: NodeVolumeLimits took its place"
            )
        points = OFF_BY_DEFAULT.get(name) or points_of(name)
        if points is None:
            raise one.error("name", f"there is no plugin {shown(name)}")
        if point != MULTI_POINT and point not in points:
            raise one.error("name", f"{name} does not extend {point}")
        if name in seen:
            raise one.error("name", f"{name} is enabled twice")
        seen.add(name)
        lowest = 0 if point in (SCORE, MULTI_POINT) else WEIGHT_MIN
        weight = one.integer("weight", 0, lowest, WEIGHT_MAX)
        if name not in OFF_BY_DEFAULT:
            yield Named(name, weight)


def _merged(custom: PluginSet) -> tuple[Named, ...]:
    """Merge multiPoint: a default that the file names keeps its place with the file's values."""
    named = {one.name: one for one in custom.enabled}
    kept = [
        named.pop(one.name, one)
        for one in (() if ALL in custom.disabled else DEFAULTS)
        if one.name not in custom.disabled
    ]
    return (*kept, *named.values())


def _at_point(
    plugins: Fields, point: str, at_point: PluginSet, multi: PluginSet
) -> tuple[Named, ...]:
    """Return the plugins named both at the point and in multiPoint, then the others of multiPoint,
    then the others named at the point.
    """
    if ALL in at_point.disabled:
        return at_point.enabled
    able = [one for one in multi.enabled if point in (points_of(one.name) or ())]
    spread = {one.name for one in able if one.name not in at_point.disabled}
    named = {one.name for one in at_point.enabled}
    first = [one for one in at_point.enabled if one.name in spread]
    middle = [one for one in able if one.name in spread - named]
    last = [one for one in at_point.enabled if one.name not in spread]
    return (*first, *middle, *last)
