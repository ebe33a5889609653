"""The interface of a plugin, one protocol per extension point; no plugin and no order.

A plugin is asked about all nodes (or a gathered set) at once. What depends only on the node's own
objects is static and computed once per signature; what depends on charges is dynamic. A dynamic
plugin has two forms, for arrays and for one node's numbers, which must agree bit by bit (a property
test compares them).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from shared.model.objects import PodSpec
from shared.scheduling.table.layout import F64, I16, I64, Mask

if TYPE_CHECKING:
    from shared.scheduling.cycle.signature import Signature
    from shared.scheduling.table.table import NodeTable


Check = tuple[int, float]
"""A column and its least value. A plain tuple, as every signature has some."""


class Refusal(NamedTuple):
    """Nodes refused for one reason, of which `resolvable` could pass if pods were removed
    (Unschedulable; the rest is UnschedulableAndUnresolvable).
    """

    message: str
    refused: Mask
    resolvable: Mask


class StaticFilter(Protocol):
    """Filter by the node's objects alone: always UnschedulableAndUnresolvable. `reads`: the fields
    of a PodSpec that it reads; pods with equal fields share its answer.

    The one of plugin NodeName is class NodeName in shared/scheduling/plugins/node_name.py.
    """

    name: str
    message: str
    reads: tuple[str, ...]

    def refuses(self, table: "NodeTable", spec: PodSpec) -> Mask | None:
        """Return the refused nodes, shape (n,); None if every node passes."""


class StaticScore(Protocol):
    """Score by the node's objects alone; with `is_normalised` over the feasible nodes
    (DefaultNormalizeScore), else 0..100 unchanged. `reads` is as in StaticFilter.
    """

    name: str
    reads: tuple[str, ...]
    reverse: bool
    is_normalised: bool

    def raw(self, table: "NodeTable", spec: PodSpec) -> I64 | None:
        """Return raw scores, shape (n,), at least 0; None if all are 0."""

    def applies(self, spec: PodSpec) -> bool:
        """Return False if PreScore says Skip: the plugin then adds nothing."""


class LocalScore(Protocol):
    """Score 0..100 by the node's own charges; not normalised, weight 1."""

    name: str

    def applies(self, sig: "Signature") -> bool:
        """Return False if PreScore says Skip."""

    def scores(self, sig: "Signature", cols: F64, whole: bool, within: bool) -> I16:
        """Return 0..100, shape (m,), for m gathered nodes (a new array). `whole`: each of them has
        some cpu and some memory; `within`: on each of them requests and non-zero requests stay
        within what is allocatable, this pod's included.
        """

    def score(self, sig: "Signature", values: Sequence[float]) -> int:
        """Return the score of one node."""


def normalise(raw: int, highest: int, reverse: bool) -> int:
    """Return kube-scheduler's DefaultNormalizeScore of one score; `highest` is among the feasible
    nodes.
    """
    if highest == 0:
        return 100 if reverse else raw
    share = 100 * raw // highest
    return 100 - share if reverse else share
