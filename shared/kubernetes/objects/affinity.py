"""Placement rules of a pod template: node affinity, tolerations and selectors, without amounts."""

from collections.abc import Iterator
from typing import cast

from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.model.objects import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    Operator,
    PreferredTerm,
    Requirement,
    SelectorTerm,
    Taint,
    Toleration,
)
from shared.model.pod_rules.selectors import holds
from shared.model.release import TAINT_COMPARISON, Release
from shared.model.text import integer

EFFECTS = (NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE)
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
COMPARED = ("Gt", "Lt")
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
NAME = "metadata.name"
WEIGHT_MAX = 100
SECONDS_MIN, SECONDS_MAX = -(1 << 63), (1 << 63) - 1


def requirement(fields: Fields, operators: tuple[str, ...] = OPERATORS) -> Requirement:
    """Return one expression {key, operator, values}, with Kubernetes' rule on the
    number of values.
    """
    fields.only(("key", "operator", "values"))
    fields.required_text("operator")
    operator = cast(Operator, fields.one_of("operator", operators, ""))
    values = fields.texts("values")
    if operator in ("In", "NotIn") and not values:
        raise fields.error("values", f"must not be empty with operator {operator}")
    if operator in ("Exists", "DoesNotExist") and values:
        raise fields.error("values", f"must be empty with operator {operator}")
    if operator in ("Gt", "Lt") and len(values) != 1:
        raise fields.error("values", f"must be one value with operator {operator}")
    return Requirement(fields.required_text("key"), operator, tuple(sorted(set(values))))


def _name_requirement(fields: Fields) -> Requirement:
    found = requirement(fields, ("In", "NotIn"))
    if found.key != NAME:
        raise fields.error("key", f"{shown(found.key)} is not {NAME}")
    if len(found.values) != 1:
        raise fields.error("values", "must be one name")
    return found


def selector_term(fields: Fields) -> SelectorTerm:
    """Return a term over a node's labels and name."""
    fields.only(("matchExpressions", "matchFields"))
    return SelectorTerm(
        tuple(requirement(item) for item in fields.children("matchExpressions")),
        tuple(_name_requirement(item) for item in fields.children("matchFields")),
    )


def node_affinity(spec: Fields) -> tuple[tuple[SelectorTerm, ...], tuple[PreferredTerm, ...]]:
    """Return (required terms, preferred terms) of spec.affinity.nodeAffinity."""
    affinity = spec.child("affinity")
    affinity.only(("nodeAffinity", "podAffinity", "podAntiAffinity"))
    fields = affinity.child("nodeAffinity")
    fields.only((HARD, SOFT))
    selector = fields.child(HARD)
    selector.only(("nodeSelectorTerms",))
    required = tuple(selector_term(item) for item in selector.children("nodeSelectorTerms"))
    if fields.has(HARD) and not required:
        raise selector.error("nodeSelectorTerms", "must not be empty")
    return required, tuple(_preferred(item) for item in fields.children(SOFT))


def _preferred(fields: Fields) -> PreferredTerm:
    fields.only(("weight", "preference"))
    weight = fields.integer("weight", 0, 1, WEIGHT_MAX)
    if not weight:
        raise fields.error("weight", "is required")
    return PreferredTerm(weight, selector_term(fields.child("preference")))


def tolerations(spec: Fields, release: Release) -> tuple[Toleration, ...]:
    """Return spec.tolerations in a canonical order, so that equal lists give equal signatures.
    Without the release's gate those that compare numbers are left out: they tolerate nothing.
    """
    found = {_toleration(item) for item in spec.children("tolerations")}
    if not release.has(TAINT_COMPARISON):
        found = {one for one in found if one.operator not in COMPARED}
    return tuple(sorted(found, key=lambda t: (t.key, t.operator, t.value, t.effect)))


def _toleration(fields: Fields) -> Toleration:
    fields.only(("key", "operator", "value", "effect", "tolerationSeconds"))
    operator = fields.one_of("operator", ("Equal", "Exists", *COMPARED), "Equal")
    key, value = fields.text("key"), fields.text("value")
    if not key and operator != "Exists":
        raise fields.error("operator", "must be Exists when key is empty")
    if value and operator == "Exists":
        raise fields.error("value", "must be empty when operator is Exists")
    if operator in COMPARED and integer(value) is None:
        raise fields.error("value", f"must be an integer with operator {operator}")
    fields.integer("tolerationSeconds", 0, SECONDS_MIN, SECONDS_MAX)
    effect = fields.one_of("effect", ("", *EFFECTS), "")
    return Toleration(key, operator, value, effect)


def taints(spec: Fields) -> tuple[Taint, ...]:
    """Return a node's spec.taints."""
    return tuple(_taints(spec))


def _taints(spec: Fields) -> Iterator[Taint]:
    for fields in spec.children("taints"):
        fields.only(("key", "value", "effect", "timeAdded"))
        fields.required_text("effect")
        effect = fields.one_of("effect", EFFECTS, "")
        yield Taint(fields.required_text("key"), fields.text("value"), effect)


def label_selector(
    fields: Fields,
) -> tuple[tuple[tuple[str, str], ...], tuple[Requirement, ...]]:
    """Return (matchLabels, matchExpressions) of a LabelSelector."""
    fields.only(("matchLabels", "matchExpressions"))
    operators = ("In", "NotIn", "Exists", "DoesNotExist")
    expressions = tuple(
        requirement(item, operators) for item in fields.children("matchExpressions")
    )
    return tuple(sorted(fields.mapping("matchLabels").items())), expressions


def selects(
    labels: dict[str, str],
    match_labels: tuple[tuple[str, str], ...],
    expressions: tuple[Requirement, ...],
) -> bool:
    """Return whether a pod's labels match; an empty selector matches nothing
    (disruption budgets).
    """
    if not match_labels and not expressions:
        return False
    if any(labels.get(key) != value for key, value in match_labels):
        return False
    return holds(expressions, labels)
