"""Inter-pod rules of a pod template: topology spread constraints, affinity and anti-affinity.

As an API server does when it admits a pod, this merges matchLabelKeys and mismatchLabelKeys into
the selectors, with the labels at hand.
"""

from collections.abc import Mapping
from typing import cast

from shared.kubernetes.objects.affinity import WEIGHT_MAX, requirement
from shared.kubernetes.objects.fields import Fields
from shared.model.objects import (
    Operator,
    PodTerm,
    PreferredPodTerm,
    Requirement,
    Selector,
    SpreadConstraint,
)

HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
SPREAD_FIELDS = (
    *("maxSkew", "topologyKey", "whenUnsatisfiable", "labelSelector", "minDomains"),
    *("nodeAffinityPolicy", "nodeTaintsPolicy", "matchLabelKeys"),
)
TERM_FIELDS = (
    *("labelSelector", "namespaces", "namespaceSelector", "topologyKey"),
    *("matchLabelKeys", "mismatchLabelKeys"),
)
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
HONOR, IGNORE = "Honor", "Ignore"
POLICIES = (HONOR, IGNORE)
COUNT_MAX = (1 << 31) - 1

Labels = Mapping[str, str]


def spread_of(spec: Fields, labels: Labels) -> tuple[SpreadConstraint, ...]:
    """Return spec.topologySpreadConstraints in order."""
    items = list(spec.children("topologySpreadConstraints"))
    found = tuple(constraint_of(item, labels) for item in items)
    seen = set()
    for item, one in zip(items, found, strict=True):
        if (one.topology_key, one.hard) in seen:
            raise item.error("topologyKey", "is a duplicate with this whenUnsatisfiable")
        seen.add((one.topology_key, one.hard))
    return found


def constraint_of(fields: Fields, labels: Labels) -> SpreadConstraint:
    """Return one constraint."""
    fields.only(SPREAD_FIELDS)
    fields.required_text("whenUnsatisfiable")
    hard = fields.one_of("whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"), "")
    max_skew = fields.integer("maxSkew", 0, 1, COUNT_MAX)
    if not max_skew:
        raise fields.error("maxSkew", "is required")
    if fields.has("minDomains") and hard != "DoNotSchedule":
        raise fields.error("minDomains", "needs whenUnsatisfiable DoNotSchedule")
    return SpreadConstraint(
        topology_key=fields.required_text("topologyKey"),
        max_skew=max_skew,
        hard=hard == "DoNotSchedule",
        selector=_selector(fields, labels),
        min_domains=fields.integer("minDomains", 1, 1, COUNT_MAX),
        honor_affinity=fields.one_of("nodeAffinityPolicy", POLICIES, HONOR) == HONOR,
        honor_taints=fields.one_of("nodeTaintsPolicy", POLICIES, IGNORE) == HONOR,
    )


def affinity_of(
    spec: Fields, labels: Labels
) -> tuple[tuple[PodTerm, ...], tuple[PodTerm, ...], tuple[PreferredPodTerm, ...]]:
    """Return required affinity, required anti-affinity, and preferred terms of both kinds."""
    affinity = spec.child("affinity")
    required: list[tuple[PodTerm, ...]] = []
    preferred: list[PreferredPodTerm] = []
    for key, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        fields = affinity.child(key)
        fields.only((HARD, SOFT))
        required.append(tuple(_term(item, labels) for item in fields.children(HARD)))
        for item in fields.children(SOFT):
            item.only(("weight", "podAffinityTerm"))
            weight = item.integer("weight", 0, 1, WEIGHT_MAX)
            if not weight:
                raise item.error("weight", "is required")
            term = _term(item.child("podAffinityTerm"), labels)
            preferred.append(PreferredPodTerm(sign * weight, term))
    return required[0], required[1], tuple(preferred)


def _term(fields: Fields, labels: Labels) -> PodTerm:
    fields.only(TERM_FIELDS)
    return PodTerm(
        topology_key=fields.required_text("topologyKey"),
        selector=_selector(fields, labels),
        namespaces=tuple(sorted(set(fields.texts("namespaces")))),
        namespace_selector=selector_of(fields, "namespaceSelector"),
    )


def _selector(fields: Fields, labels: Labels) -> Selector | None:
    found = selector_of(fields, "labelSelector")
    keys = (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
    if found is None:
        for name, _ in keys:
            if fields.texts(name):
                raise fields.error(name, "needs a labelSelector")
        return None
    more = {
        Requirement(key, cast(Operator, operator), (labels[key],))
        for name, operator in keys
        for key in fields.texts(name)
        if key in labels
    }
    return _ordered({*found, *more})


def selector_of(fields: Fields, key: str) -> Selector | None:
    """Return a LabelSelector as requirements in a canonical order; None when there is none."""
    if not fields.has(key):
        return None
    selector = fields.child(key)
    selector.only(("matchLabels", "matchExpressions"))
    labels = selector.mapping("matchLabels").items()
    found = {Requirement(name, "In", (value,)) for name, value in labels}
    found |= {requirement(item, OPERATORS) for item in selector.children("matchExpressions")}
    return _ordered(found)


def _ordered(requirements: set[Requirement]) -> Selector:
    return tuple(sorted(requirements, key=lambda one: (one.key, one.operator, one.values)))
