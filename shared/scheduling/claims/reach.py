"""Whether a node is among those that a reach or an allocation names."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from shared.model.claims import Reach
from shared.model.objects import Requirement, SelectorTerm
from shared.model.pod_rules.selectors import holds
from shared.scheduling.table.labels import integer

NAME = "metadata.name"


class NodeView(Struct, frozen=True):
    """The name and labels of a node."""

    name: str
    labels: Mapping[str, str]


def reaches(reach: Reach, node: NodeView) -> bool:
    """Return whether the node reaches the slice or device (GatherPools, NodeMatches)."""
    if reach.node:
        return reach.node == node.name
    return reach.all_nodes or (reach.term is not None and _holds(reach.term, node))


def among(terms: Sequence[SelectorTerm], node: NodeView) -> bool:
    """Return whether any of the terms holds for the node."""
    return any(_holds(one, node) for one in terms)


def _holds(term: SelectorTerm, node: NodeView) -> bool:
    """Return whether all requirements hold; a term without any holds for no node."""
    if not (term.labels or term.fields):
        return False
    return all(_fulfils(one, node.labels) for one in term.labels) and holds(
        term.fields, {NAME: node.name}
    )


def _fulfils(need: Requirement, labels: Mapping[str, str]) -> bool:
    if need.operator not in ("Gt", "Lt"):
        return holds((need,), labels)
    bound, value = integer(need.values[0]), integer(labels.get(need.key, ""))
    if bound is None or value is None:
        return False
    return value > bound if need.operator == "Gt" else value < bound
