"""Rules that a profile adds to those of pods: addedAffinity and defaultConstraints.

kube-scheduler validates them differently from an API server's validation of pods: labels and
numbers strictly, weights and policies not at all.
"""

import re
from typing import cast

from shared.kubernetes.objects.affinity import HARD, NAME, SOFT, requirement
from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.labels import is_label_name, is_label_value
from shared.kubernetes.objects.pod_rules import COUNT_MAX, HONOR, IGNORE, SPREAD_FIELDS
from shared.model.objects import (
    Operator,
    PreferredTerm,
    Requirement,
    SelectorTerm,
    SpreadConstraint,
)

INT32_MIN, INT64_MAX = -(1 << 31), (1 << 63) - 1
_DIGITS = re.compile("[0-9]+")

Affinity = tuple[tuple[SelectorTerm, ...] | None, tuple[PreferredTerm, ...]]


def added_affinity(fields: Fields) -> Affinity:
    """Return (required terms, preferred terms); None: nothing is required, which differs from no
    term, as no node matches that. Raises WorldError.
    """
    fields.only((HARD, SOFT))
    selector = fields.child(HARD)
    selector.only(("nodeSelectorTerms",))
    required = tuple(_term(item) for item in selector.children("nodeSelectorTerms"))
    preferred = tuple(_preferred(item) for item in fields.children(SOFT))
    return required if fields.has(HARD) else None, preferred


def _preferred(fields: Fields) -> PreferredTerm:
    """Return a preferred term. One without a weight matches nothing: kube-scheduler ignores its
    preference, but scores all the same.
    """
    fields.only(("weight", "preference"))
    weight = fields.integer("weight", 0, INT32_MIN, COUNT_MAX)
    if not weight:
        return PreferredTerm(0, SelectorTerm())
    if weight < 0:
        raise fields.error(
            "weight", "a negative one is not supported: every score would be refused"
        )
    return PreferredTerm(weight, _term(fields.child("preference")))


def _term(fields: Fields) -> SelectorTerm:
    for need in fields.children("matchExpressions"):
        _check_labels(need)
    fields.only(("matchExpressions", "matchFields"))
    return SelectorTerm(
        tuple(requirement(item) for item in fields.children("matchExpressions")),
        tuple(_field(item) for item in fields.children("matchFields")),
    )


def _field(fields: Fields) -> Requirement:
    """Return a requirement on a node field. Nodes have only their name: every other field is empty,
    so the rule becomes one about names that holds for all nodes, or for none.
    """
    fields.only(("key", "operator", "values"))
    fields.required_text("operator")
    operator = cast(Operator, fields.one_of("operator", ("In", "NotIn"), ""))
    values = fields.texts("values")
    if len(values) != 1:
        raise fields.error("values", "must have one element")
    if fields.text("key") == NAME:
        return Requirement(NAME, operator, values)
    holds = (operator == "In") == (not values[0])
    return Requirement(NAME, "NotIn" if holds else "In", ("",))


def _check_labels(fields: Fields) -> None:
    need = requirement(fields)
    if not is_label_name(need.key):
        raise fields.error("key", f"{shown(need.key)} is not a label name")
    for number, value in enumerate(fields.texts("values")):
        if not is_label_value(value):
            raise fields.error(f"values[{number}]", f"{shown(value)} is not a label value")
        is_number = _DIGITS.fullmatch(value) and int(value) <= INT64_MAX
        if need.operator in ("Gt", "Lt") and not is_number:
            raise fields.error(f"values[{number}]", f"{shown(value)} is not an integer")


def default_constraint(fields: Fields) -> SpreadConstraint:
    """Return a default constraint. Unknown policies honor nothing, and fields that need a selector
    have no effect, as there is none. Raises WorldError.
    """
    fields.only(SPREAD_FIELDS)
    if fields.has("labelSelector"):
        raise fields.error("labelSelector", "must not be set in default constraints")
    fields.texts("matchLabelKeys")
    domains = fields.integer("minDomains", 1, INT32_MIN, COUNT_MAX)
    key = fields.required_text("topologyKey")
    if not is_label_name(key):
        raise fields.error("topologyKey", f"{shown(key)} is not a label name")
    fields.required_text("whenUnsatisfiable")
    kind = fields.one_of("whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"), "")
    max_skew = fields.integer("maxSkew", 0, 1, COUNT_MAX)
    if not max_skew:
        raise fields.error("maxSkew", "is required")
    is_hard = kind == "DoNotSchedule"
    return SpreadConstraint(
        topology_key=key,
        max_skew=max_skew,
        hard=is_hard,
        # Only hard constraints count domains, and fewer than one domain means none.
        min_domains=max(domains, 1) if is_hard else 1,
        honor_affinity=fields.text("nodeAffinityPolicy", HONOR) == HONOR,
        honor_taints=fields.text("nodeTaintsPolicy", IGNORE) == HONOR,
    )
