"""NodeAffinity: nodeSelector, required terms (filter) and preferred terms (score).

Terms are ORed, the requirements of a term ANDed. What the API would reject (an unknown field, a
bound that is no label value) matches nothing, as in kube-scheduler's required terms.
"""

import numpy as np

from shared.model.objects import PodSpec, PreferredTerm, Requirement, SelectorTerm
from shared.scheduling.table.labels import LabelColumn, integer
from shared.scheduling.table.layout import I64, Mask
from shared.scheduling.table.table import NodeTable

NAME_FIELD = "metadata.name"


def _none(table: NodeTable) -> Mask:
    return np.zeros(table.size, np.bool_)


def _bounded(table: NodeTable, column: LabelColumn, need: Requirement) -> Mask:
    text = need.values[0] if len(need.values) == 1 else ""
    bound = integer(text) if text.isdigit() else None  # a sign is no label value
    if bound is None:
        return _none(table)
    return column.compared(bound, greater=need.operator == "Gt")


def _label_matches(table: NodeTable, need: Requirement) -> Mask:
    column = table.labels(need.key)
    match need.operator:
        case "In":
            return column.among(need.values)
        case "NotIn":
            return np.logical_not(column.among(need.values))
        case "Exists":
            return column.present()
        case "DoesNotExist":
            return np.logical_not(column.present())
        case _:
            return _bounded(table, column, need)


def _field_matches(table: NodeTable, need: Requirement) -> Mask:
    if need.key != NAME_FIELD or need.operator not in ("In", "NotIn"):
        return _none(table)
    named = _none(table)
    for name in need.values:
        row = table.row_named(name)
        if row is not None:
            named[row] = True
    return named if need.operator == "In" else np.logical_not(named)


def term_matches(table: NodeTable, term: SelectorTerm) -> Mask:
    """Return the nodes on which every requirement of the term holds; an empty term matches none."""
    needs = [_label_matches(table, need) for need in term.labels]
    needs += [_field_matches(table, need) for need in term.fields]
    if not needs:
        return _none(table)
    matches = needs[0]
    for need in needs[1:]:
        matches = matches & need
    return matches


def _any_term(table: NodeTable, terms: tuple[SelectorTerm, ...]) -> Mask:
    any_term = _none(table)
    for term in terms:
        any_term |= term_matches(table, term)
    return any_term


def is_named(need: Requirement) -> bool:
    """Return whether the requirement names nodes."""
    return need.key == NAME_FIELD and need.operator == "In"


class AddedAffinity:
    """Static filter: the required terms of the profile itself."""

    name = "NodeAffinity"
    message = "node(s) didn't match scheduler-enforced node affinity"
    reads: tuple[str, ...] = ()

    def __init__(self, required: tuple[SelectorTerm, ...]) -> None:
        self._required = required

    def refuses(self, table: NodeTable, spec: PodSpec) -> Mask | None:
        """Return the nodes outside every term."""
        return np.logical_not(_any_term(table, self._required))


class NodeAffinity:
    """Static filter and static score; `added` are preferred terms of the profile itself."""

    name = "NodeAffinity"
    message = "node(s) didn't match Pod's node affinity/selector"
    reads: tuple[str, ...] = ("node_selector", "affinity_required", "affinity_preferred")
    reverse = False
    is_normalised = True

    def __init__(self, added: tuple[PreferredTerm, ...] = ()) -> None:
        self._added = added

    def refuses(self, table: NodeTable, spec: PodSpec) -> Mask | None:
        """Return the nodes outside the selector or outside every required term."""
        if not spec.node_selector and not spec.affinity_required:
            return None
        matches = np.ones(table.size, np.bool_)
        for key, value in spec.node_selector:
            matches &= table.labels(key).among((value,))
        if spec.affinity_required:
            matches &= _any_term(table, spec.affinity_required)
        return np.logical_not(matches)

    def raw(self, table: NodeTable, spec: PodSpec) -> I64 | None:
        """Return the sum of the weights of the matching preferred terms."""
        if not self.applies(spec):
            return None
        raw = np.zeros(table.size, np.int64)
        for preferred in (*spec.affinity_preferred, *self._added):
            assert preferred.weight >= 0, f"a preferred term of weight {preferred.weight}"
            raw[term_matches(table, preferred.term)] += preferred.weight
        return raw

    def applies(self, spec: PodSpec) -> bool:
        """Return whether there is a preferred term."""
        return bool(spec.affinity_preferred or self._added)
