"""Maps profiles to the default one: which filters differ, and the spec that has the same effect."""

from typing import Any

import msgspec

from shared.model.objects import (
    NO_EXECUTE,
    NO_SCHEDULE,
    UNSCHEDULABLE_TAINT,
    PodSpec,
    SelectorTerm,
    Toleration,
)
from shared.model.profile import DEFAULT_FILTERS, Profile

TOLERATES_ALL = tuple(Toleration("", "Exists", "", effect) for effect in (NO_SCHEDULE, NO_EXECUTE))


def filters_by_default(profile: Profile) -> bool:
    """Return whether the filters and their order are the default ones."""
    default = Profile()

    def part(one: Profile) -> tuple[object, ...]:
        ignored = one.ignored_resources, one.ignored_groups
        return one.filters, one.names_nodes, *ignored, one.added_required

    return part(profile) == part(default)


WITHOUT = frozenset(
    (
        *("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts"),
        *("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"),
        *("PodTopologySpread", "InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures"),
    )
)
"""Filters that a profile may lack: `as_by_default` knows, or what they read is not checked."""


def has_own_filters(profile: Profile) -> bool:
    """Return whether users' plugins may refuse pods of the profile, or it lacks a filter that is
    always checked here.
    """
    return (
        bool(profile.reserve or set(DEFAULT_FILTERS) - {*profile.filters, *WITHOUT})
        or profile.acts_at_bind
        or any(one.rejects or one.name in profile.filters for one in profile.custom)
    )


def as_by_default(spec: PodSpec, profile: Profile) -> PodSpec:
    """Return the spec that the default filters treat as the profile's filters treat this one."""
    changes: dict[str, Any] = {"requests": tuple(_looked_at(spec, profile))}
    tolerations = spec.tolerations
    if "TaintToleration" not in profile.filters:
        tolerations = (*tolerations, *TOLERATES_ALL)
    if "NodeUnschedulable" not in profile.filters:
        tolerations = (*tolerations, Toleration(UNSCHEDULABLE_TAINT, "Exists"))
    changes["tolerations"] = tolerations
    if "NodePorts" not in profile.filters:
        changes["host_ports"] = ()
    if "PodTopologySpread" not in profile.filters:
        changes["spread"] = tuple(one for one in spec.spread if not one.hard)
    if "InterPodAffinity" not in profile.filters:
        changes |= {"pod_affinity": (), "pod_anti_affinity": ()}
    if "NodeAffinity" not in profile.filters:
        changes |= {"node_selector": (), "affinity_required": ()}
    elif profile.added_required is not None:
        changes["affinity_required"] = _both(spec.affinity_required, profile.added_required)
    return msgspec.structs.replace(spec, **changes)


def _looked_at(spec: PodSpec, profile: Profile) -> list[tuple[str, int]]:
    ignored, groups = profile.ignored_resources, profile.ignored_groups
    return [
        (name, amount)
        for name, amount in spec.requests
        if "/" not in name or (name not in ignored and name.partition("/")[0] not in groups)
    ]


def _both(required: tuple[SelectorTerm, ...], added: tuple[SelectorTerm, ...]) -> tuple[Any, ...]:
    """Return terms that match where one of each matches; an empty term matches nowhere."""
    pairs = [(a, b) for a in required or (None,) for b in added if b.labels or b.fields]
    found = [
        b if a is None else SelectorTerm((*a.labels, *b.labels), (*a.fields, *b.fields))
        for a, b in pairs
        if a is None or a.labels or a.fields
    ]
    return tuple(found) or (SelectorTerm(),)
