"""The `pluginConfig` of a profile: the arguments of each plugin, with kube-scheduler's defaults and
validation. Values that Muster cannot honor are refused.
"""

import re
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from shared.configuration.added_rules import added_affinity, default_constraint
from shared.configuration.plugins import REMOVED
from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.labels import is_label_name
from shared.model.objects import GPU
from shared.model.profile import PLUGINS, REQUESTED_TO_CAPACITY_RATIO, STRATEGIES, Profile, Strategy
from shared.model.release import STORAGE_CAPACITY_SCORING, V1_36, Release
from shared.scheduling.api.custom.args import ArgsWrong, json_of
from shared.scheduling.api.custom.plugin import PLUGINS as USER_PLUGINS

API_VERSION = "kubescheduler.config.k8s.io/v1"
INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1
RESOURCE_WEIGHT_MAX = 100
SCORE_FACTOR = 10
"""From the scores of a shape, 0..10, to a plugin's, 0..100."""
UNITS_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}

_PART = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)"
_DURATION = re.compile(rf"([+-]?)(?:0|((?:{_PART})+))")

SECONDS_MAX = 1 << 40  # practically never

Arguments = dict[str, Any]
"""Fields of a Profile."""


def with_arguments(profile: Profile, fields: Fields, release: Release) -> Profile:
    """Return the profile with its `pluginConfig` applied. Raises WorldError."""
    for name, one in _entries(fields).items():
        if name in USER_PLUGINS:
            continue
        args = one.child("args")
        reader = READERS.get(name)
        if reader is None:
            if args.values:
                raise one.error("args", f"{name} takes no arguments")
            continue
        _check_kind(args, name)
        profile = msgspec.structs.replace(profile, **reader(args, release))
    return profile


def _entries(fields: Fields) -> dict[str, Fields]:
    """Return the entries of `pluginConfig` by plugin."""
    found: dict[str, Fields] = {}
    for one in fields.children("pluginConfig"):
        one.only(("name", "args"))
        name = one.required_text("name")
        if name in found:
            raise one.error("name", f"{name} is configured twice")
        if name in REMOVED or not (name in PLUGINS or name in USER_PLUGINS):
            raise one.error("name", f"there is no plugin {shown(name)}")
        found[name] = one
    return found


def own_arguments(fields: Fields, enabled: Collection[str]) -> dict[str, str]:
    """Return the arguments of each enabled user's plugin, checked by the plugin's own type. Raises
    WorldError.
    """
    given = _entries(fields)
    found = dict.fromkeys(enabled, "")
    for name in sorted({*enabled, *given}.intersection(USER_PLUGINS)):
        one = given.get(name)
        args = "" if one is None else json_of(one.child("args").values)
        try:
            USER_PLUGINS[name].made_with(args)
        except ArgsWrong as error:
            at = fields if one is None else one
            key = "pluginConfig" if one is None else error.field
            raise at.error(key, f"{name}: {error}") from error
        found[name] = args
    return found


def _check_kind(args: Fields, name: str) -> None:
    """Check apiVersion and kind; both are optional."""
    for key, right in (("apiVersion", API_VERSION), ("kind", f"{name}Args")):
        if args.text(key, right) != right:
            raise args.error(key, f"must be {right}")


def _only(args: Fields, *known: str) -> None:
    args.only(("apiVersion", "kind", *known))


def duration_ms(fields: Fields, key: str, default_ms: float) -> float:
    """Return a duration in ms from Go's spelling, such as 15s or 1m30s."""
    text = fields.text(key)
    if not fields.has(key):
        return default_ms
    match = _DURATION.fullmatch(text)
    if match is None:
        raise fields.error(key, f"{shown(text)} is not a duration such as 15s or 1m30s")
    parts = re.findall(_PART, match[2] or "")
    total_ms = sum(float(number) * UNITS_MS[unit] for number, unit in parts)
    return -total_ms if match[1] == "-" else total_ms


# ------------------------------------------------------------------------------------------ preempt


def _default_preemption(args: Fields, _: Release) -> Arguments:
    """Check the numbers of candidates; Muster finds all that it needs anyway."""
    _only(args, "minCandidateNodesPercentage", "minCandidateNodesAbsolute")
    percentage = args.integer("minCandidateNodesPercentage", 10, 0, 100)
    if not args.integer("minCandidateNodesAbsolute", 100, 0, INT32_MAX) and not percentage:
        raise args.error(
            "minCandidateNodesPercentage", "cannot be 0 together with minCandidateNodesAbsolute"
        )
    return {}


# ----------------------------------------------------------------------------------------- affinity


def _node_affinity(args: Fields, _: Release) -> Arguments:
    _only(args, "addedAffinity")
    if not args.has("addedAffinity"):
        return {}
    required, preferred = added_affinity(args.child("addedAffinity"))
    return {"added_required": required, "added_preferred": preferred}


def _inter_pod_affinity(args: Fields, _: Release) -> Arguments:
    _only(args, "hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods")
    return {
        "hard_pod_affinity_weight": args.integer("hardPodAffinityWeight", 1, 0, 100),
        "ignores_preferred_terms": args.flag("ignorePreferredTermsOfExistingPods"),
    }


def _pod_topology_spread(args: Fields, _: Release) -> Arguments:
    _only(args, "defaultConstraints", "defaultingType")
    kind = args.one_of("defaultingType", ("", "System", "List"), "") or "System"
    constraints = list(args.children("defaultConstraints"))
    if constraints and kind == "System":
        raise args.error("defaultingType", "must be List where there are defaultConstraints")
    if kind == "System":
        return {}
    found = [default_constraint(item) for item in constraints]
    pairs = [(one.topology_key, one.hard) for one in found]
    for number, pair in enumerate(pairs):
        if pair in pairs[:number]:
            raise constraints[number].error("", "repeats a topologyKey and whenUnsatisfiable")
    return {"default_spread": tuple(found)}


# ---------------------------------------------------------------------------------------- resources


def _resources(
    fields: Fields, key: str, weight_max: int = RESOURCE_WEIGHT_MAX
) -> tuple[tuple[str, int], ...]:
    """Return names and weights; cpu and memory if there are none. A weight of 0 is 1."""
    found = []
    for one in fields.children(key):
        one.only(("name", "weight"))
        weight = one.integer("weight", 1, 0, weight_max) or 1
        found.append((one.text("name"), weight))
    return tuple(found) or Strategy().resources


def _fit(args: Fields, release: Release) -> Arguments:
    _only(args, "ignoredResources", "ignoredResourceGroups", "scoringStrategy")
    resources, groups = args.texts("ignoredResources"), args.texts("ignoredResourceGroups")
    for key, texts in (("ignoredResources", resources), ("ignoredResourceGroups", groups)):
        for number, text in enumerate(texts):
            if not is_label_name(text) or (key == "ignoredResourceGroups" and "/" in text):
                raise args.error(f"{key}[{number}]", f"{shown(text)} is not a resource name")
            if text in (GPU, GPU.partition("/")[0]):
                raise args.error(f"{key}[{number}]", f"{GPU} is not supported: devices are given")
    return {
        "ignored_resources": resources,
        "ignored_groups": groups,
        "strategy": _strategy(args, release),
    }


def _strategy(args: Fields, release: Release) -> Strategy:
    if not args.has("scoringStrategy"):
        return Strategy()
    fields = args.child("scoringStrategy")
    fields.only(("type", "resources", "requestedToCapacityRatio"))
    fields.required_text("type")
    kind = fields.one_of("type", STRATEGIES, "")
    ratio = fields.child("requestedToCapacityRatio")
    ratio.only(("shape",))
    shape: tuple[tuple[int, int], ...] = ()
    if fields.has("requestedToCapacityRatio"):
        if release.version >= V1_36 and kind != REQUESTED_TO_CAPACITY_RATIO:
            raise fields.error("requestedToCapacityRatio", f"must be absent with type {kind}")
        shape = _shape(ratio)
    elif kind == REQUESTED_TO_CAPACITY_RATIO:
        raise fields.error("requestedToCapacityRatio", f"is required with type {kind}")
    if kind != REQUESTED_TO_CAPACITY_RATIO:
        shape = ()
    return Strategy(kind, _resources(fields, "resources"), shape)


def _shape(fields: Fields) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for one in fields.children("shape"):
        one.only(("utilization", "score"))
        utilization = one.integer("utilization", 0, 0, 100)
        if found and utilization <= found[-1][0]:
            raise one.error("utilization", "must be higher than the one before")
        found.append((utilization, SCORE_FACTOR * one.integer("score", 0, 0, 10)))
    if not found:
        raise fields.error("shape", "must have at least one point")
    return tuple(found)


def _balanced(args: Fields, _: Release) -> Arguments:
    _only(args, "resources")
    names = tuple(name for name, _ in _resources(args, "resources", 1))
    for number, name in enumerate(names):
        if name in names[:number]:
            raise args.error(f"resources[{number}].name", f"{name} is a duplicate")
    return {"balanced": names}


# ------------------------------------------------------------------------------------------ volumes


def _volume_binding(args: Fields, release: Release) -> Arguments:
    _only(args, "bindTimeoutSeconds", "shape")
    timeout_s = min(args.integer("bindTimeoutSeconds", 600, 0, INT64_MAX), SECONDS_MAX)
    found: Arguments = {"bind_timeout_ms": 1_000 * timeout_s}
    if not args.has("shape"):
        return found
    if not release.has(STORAGE_CAPACITY_SCORING):
        raise args.error("shape", "needs StorageCapacityScoring, which is off")
    if list(args.children("shape")):
        found["volume_shape"] = _shape(args)
    return found


def _dynamic_resources(args: Fields, release: Release) -> Arguments:
    """Check the timeout. Pods with resource claims are refused elsewhere, so nothing waits."""
    _only(args, "filterTimeout", "bindingTimeout")
    if duration_ms(args, "filterTimeout", 10_000) < 0:
        raise args.error("filterTimeout", "must not be negative")
    if args.has("bindingTimeout") and release.version < V1_36:
        raise args.error("bindingTimeout", "needs DRADeviceBindingConditions, which is off")
    if duration_ms(args, "bindingTimeout", 1_000) < 1_000:
        raise args.error("bindingTimeout", "must be at least 1s")
    return {}


READERS: dict[str, Callable[[Fields, Release], Arguments]] = {
    "DefaultPreemption": _default_preemption,
    "InterPodAffinity": _inter_pod_affinity,
    "NodeAffinity": _node_affinity,
    "NodeResourcesBalancedAllocation": _balanced,
    "NodeResourcesFit": _fit,
    "PodTopologySpread": _pod_topology_spread,
    "VolumeBinding": _volume_binding,
    "DynamicResources": _dynamic_resources,
}
