"""What a plugin must provide, one protocol per extension point; holds no plugin and no order.

A plugin is asked about all nodes (or all of a gathered set) at once. What depends only on the
node's own objects is static and is asked once per signature; what depends on charges is dynamic.
A dynamic plugin answers in two forms, for arrays and for one node's numbers, and the two must agree
bit by bit (held by a property test).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from shared.model.objects import PodSpec
from shared.scheduling.table.layout import F64, I16, I64, Mask

if TYPE_CHECKING:
    from shared.scheduling.cycle.signature import Signature
    from shared.scheduling.table.table import NodeTable


Check = tuple[int, float]
"""A column and its least value. A plain tuple: there are some for every signature."""


class Refusal(NamedTuple):
    """Nodes refused for one reason, of which `resolvable` could pass if pods were removed
    (Unschedulable; the rest is UnschedulableAndUnresolvable).
    """

    message: str
    refused: Mask
    resolvable: Mask


class StaticFilter(Protocol):
    """Filter by the node's objects alone: always UnschedulableAndUnresolvable. `reads` are the
    fields of a PodSpec that it looks at: pods that have them in common share its answer.
    """

    name: str
    message: str
    reads: tuple[str, ...]

    def refuses(self, table: "NodeTable", spec: PodSpec) -> Mask | None:
        """Refused nodes, shape (n,); None when every node passes."""


class StaticScore(Protocol):
    """Score by the node's objects alone; with `is_normalised` over the feasible nodes
    (DefaultNormalizeScore), else 0..100 as it is. `reads` as for StaticFilter.
    """

    name: str
    reads: tuple[str, ...]
    reverse: bool
    is_normalised: bool

    def raw(self, table: "NodeTable", spec: PodSpec) -> I64 | None:
        """Raw scores, shape (n,), at least 0; None when all are 0."""

    def applies(self, spec: PodSpec) -> bool:
        """False where PreScore says Skip: the plugin then adds nothing."""


class LocalScore(Protocol):
    """Score 0..100 by the node's own charges; not normalised, weight 1."""

    name: str

    def applies(self, sig: "Signature") -> bool:
        """False where PreScore says Skip."""

    def scores(self, sig: "Signature", cols: F64, whole: bool, within: bool) -> I16:
        """0..100, shape (m,), of m gathered nodes (a new array). `whole`: every one
        of them has some cpu and some memory; `within`: on every one of them requests and non-zero
        requests stay within what is allocatable, this pod's included.
        """

    def score(self, sig: "Signature", values: Sequence[float]) -> int:
        """The same of one node."""


def normalise(raw: int, highest: int, reverse: bool) -> int:
    """kube-scheduler's DefaultNormalizeScore of one score, `highest` among the feasible nodes."""
    if highest == 0:
        return 100 if reverse else raw
    share = 100 * raw // highest
    return 100 - share if reverse else share
