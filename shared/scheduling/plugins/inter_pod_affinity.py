"""InterPodAffinity: which pods a pod must, must not, or prefers to share a domain with.

It works both ways: existing pods refuse with their own anti-affinity, and attract or repel with
their preferred terms; their required affinity attracts with weight 1. Namespace selectors are read
differently in the pod's own terms and in those of existing pods up to 1.36 (selectors.sought).
"""

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shared.model.objects import HOSTNAME
from shared.model.pod_rules.rule_counts import (
    AFFINITY,
    ANTI_AFFINITY,
    ATTRACTED,
    KEPT_AWAY,
    RuleCount,
)
from shared.scheduling.table.counters import (
    AFFINE,
    AVOIDED,
    OPPOSED,
    PREFERRED,
    Counts,
    Matching,
    affinity_counter,
)
from shared.scheduling.table.domains import Domains
from shared.scheduling.table.layout import I32, I64, Mask
from shared.scheduling.table.table import NodeTable

if TYPE_CHECKING:
    from shared.scheduling.cycle.signature import Signature

NAME = "InterPodAffinity"
NOT_AFFINE = "node(s) didn't match pod affinity rules"
NOT_ANTI_AFFINE = "node(s) didn't match pod anti-affinity rules"
EXISTING_REFUSE = "node(s) didn't satisfy existing pods anti-affinity rules"


class _Term(NamedTuple):
    """Pods in one counter, by domain; `weight` if they are scored. `elsewhere`: those of other
    shards, by domain.
    """

    counter: int
    domains: Domains
    key: str
    weight: int = 0
    elsewhere: I64 | None = None
    is_elsewhere: bool = False  # on any node of another shard

    @property
    def reads_nodes(self) -> bool:
        """Return whether `by_node` reads each node alone."""
        return self.domains.alone and self.elsewhere is None

    def by_node(self, counts: Counts) -> I64 | I32:
        """Return how many of them are in each node's domain; 0 for nodes in none."""
        if self.elsewhere is None:
            return self.domains.by_node(counts, self.counter)
        found: I64 = (self.sums(counts) + self.elsewhere)[self.domains.place]
        return found

    def sums(self, counts: Counts) -> I64:
        """Return how many of them are in each domain of this table."""
        return self.domains.sums(counts.row(self.counter))

    def has_pods(self, counts: Counts) -> bool:
        """Return whether any of the pods is on a node with the key."""
        return self.is_elsewhere or self.is_here(counts)

    def is_here(self, counts: Counts) -> bool:
        """Return whether any of the pods is on a node of this table with the key."""
        row = counts.row(self.counter)
        return bool(np.count_nonzero(row if self.domains.anywhere else row[~self.domains.absent]))


class _Elsewhere(_Term):
    """Pods of other shards only."""

    def sums(self, counts: Counts) -> I64:
        """Return zeros."""
        return np.zeros(self.domains.width, np.int64)

    def is_here(self, counts: Counts) -> bool:
        """Return False."""
        return False


def _with_others(one: _Term, other: RuleCount) -> _Term:
    """Return the term with what it counts on other shards."""
    if not other.total:
        return one
    return one._replace(elsewhere=one.domains.of_values(other.values), is_elsewhere=True)


def _elsewhere(one: RuleCount, domains: Domains) -> _Elsewhere:
    """Return what terms of other pods count on other shards."""
    return _Elsewhere(0, domains, one.key, 1, domains.of_values(one.values), True)


class Affinity:
    """The terms that concern one signature on the present nodes."""

    def __init__(self, table: NodeTable, sig: "Signature") -> None:
        spec, others, sought = sig.spec, sig.others, sig.plugins.sought
        counters, known = table.counters, dict[str, Domains]()

        def domains(key: str) -> Domains:
            if key not in known:
                known[key] = Domains(table.labels(key))
            return known[key]

        def term(key: str, at: int, weight: int = 0) -> _Term:
            return _Term(at, domains(key), key, weight)

        def summed(one: _Term, rule: str, at: int) -> _Term:
            return _with_others(one, others.find(rule, at, one.key))

        def elsewhere(rule: str) -> list[_Term]:
            return [_elsewhere(one, domains(one.key)) for one in others.by_key(rule)]

        def matching(one: Matching) -> int:
            return counters.index[one]

        self.affine: list[_Term] = []
        self.itself = False  # it may be the first pod of its own group
        if spec.pod_affinity:
            wanted = affinity_counter(sig)
            at = matching(wanted)
            self.affine = [
                summed(term(one.topology_key, at), AFFINITY, number)
                for number, one in enumerate(spec.pod_affinity)
            ]
            self.itself = wanted.matches(spec, counters.labels_of)
        self.anti = [
            summed(
                term(one.topology_key, matching(Matching((sought(one, spec),)))),
                ANTI_AFFINITY,
                number,
            )
            for number, one in enumerate(spec.pod_anti_affinity)
        ]
        self.opposed = [term(key, at) for key, at in counters.owned(OPPOSED, spec)]
        self.opposed += elsewhere(KEPT_AWAY)
        self.scored = [
            term(
                one.term.topology_key,
                matching(Matching((sought(one.term, spec),))),
                one.weight,
            )
            for one in spec.pods_preferred
        ]
        # That of an existing pod's required affinity.
        hard_weight = sig.plugins.profile.hard_pod_affinity_weight
        for kind, weight in ((PREFERRED, 1), (AVOIDED, 1), (AFFINE, hard_weight)):
            if not weight:
                continue
            self.scored += [term(key, at, weight) for key, at in counters.owned(kind, spec)]
        self.scored += elsewhere(ATTRACTED)

    def counted(self, counts: Counts) -> list[RuleCount]:
        """Return what the terms count on the nodes of this table."""
        found = []
        for rule, terms in ((AFFINITY, self.affine), (ANTI_AFFINITY, self.anti)):
            for at, one in enumerate(terms):
                sums = one.sums(counts)
                total = int(sums.sum(dtype=np.int64))
                if one.key != HOSTNAME:
                    values = one.domains.values(sums)
                    found.append(RuleCount(rule, at, one.key, values, total))
                elif rule == AFFINITY:
                    found.append(RuleCount(rule, at, one.key, (), total))
        for rule, terms in ((KEPT_AWAY, self.opposed), (ATTRACTED, self.scored)):
            by_key: dict[str, I64] = {}
            for one in terms:
                if one.key != HOSTNAME:
                    sums = (one.weight or 1) * one.sums(counts)
                    by_key[one.key] = by_key.get(one.key, 0) + sums
            for key, sums in sorted(by_key.items()):
                values = next(one for one in terms if one.key == key).domains.values(sums)
                total = sum(abs(count) for _value, count in values)
                found.append(RuleCount(rule, 0, key, values, total))
        return found

    def columns(self) -> Iterator[I64 | Mask]:
        """Yield what tells nodes apart besides counts, shape (n,) each."""
        for one in (*self.affine, *self.anti, *self.opposed, *self.scored):
            if not one.reads_nodes:
                yield from one.domains.columns()

    def read_by_node(self) -> list[int]:
        """Return the counters of which the terms read single nodes, not domains."""
        terms = (*self.affine, *self.anti, *self.opposed, *self.scored)
        return [one.counter for one in terms if one.reads_nodes]

    def among(self, rows: I64) -> "Affinity":
        """Return the same terms with these nodes only."""

        def reduced(terms: list[_Term]) -> list[_Term]:
            return [one._replace(domains=one.domains.among(rows)) for one in terms]

        found = copy(self)
        found.affine, found.anti = reduced(self.affine), reduced(self.anti)
        found.opposed, found.scored = reduced(self.opposed), reduced(self.scored)
        return found

    def skips(self, counts: Counts) -> bool:
        """Return whether PreFilter skips the plugin in this cycle: no pod can refuse it. Nominated
        pods are not considered then, as in kube-scheduler.
        """
        if self.affine or self.anti:
            return False
        return not any(one.has_pods(counts) for one in self.opposed)

    def refusals(self, counts: Counts) -> tuple[Mask, Mask, Mask]:
        """Return the nodes refused by its affinity, by its anti-affinity, and by existing pods:
        each node by the first that applies.
        """
        nodes = counts.nodes
        not_affine = self._not_affine(counts) if self.affine else np.zeros(nodes, np.bool_)
        anti, existing = np.zeros(nodes, np.bool_), np.zeros(nodes, np.bool_)
        for one in self.anti:
            anti |= one.by_node(counts) > 0
        for one in self.opposed:
            existing |= one.by_node(counts) > 0
        anti &= ~not_affine
        existing &= ~(not_affine | anti)
        return not_affine, anti, existing

    def refused(self, counts: Counts) -> Mask:
        """Return the nodes that `refusals` has for any reason."""
        found = self._not_affine(counts) if self.affine else np.zeros(counts.nodes, np.bool_)
        for one in (*self.anti, *self.opposed):
            found = found | (one.by_node(counts) > 0)
        return found

    def _not_affine(self, counts: Counts) -> Mask:
        refused = self.affine[0].domains.absent
        for one in self.affine[1:]:
            refused = refused | one.domains.absent
        if self.itself and not any(one.has_pods(counts) for one in self.affine):
            return refused
        for one in self.affine:
            refused = refused | (one.by_node(counts) <= 0)
        return refused

    def scores(self, counts: Counts, feasible: Mask) -> I64 | None:
        """Return 0..100 for each feasible node; None if no pod counts."""
        present = [one for one in self.scored if one.has_pods(counts)]
        if not present:
            return None
        raw = np.zeros(counts.nodes, np.int64)
        for one in present:
            raw += one.weight * one.by_node(counts)
        found = np.zeros(len(raw), np.int64)
        among = raw[feasible]
        if len(among):
            lowest, highest = int(among[among.argmin()]), int(among[among.argmax()])
            if highest > lowest:
                share = (among - lowest).astype(np.float64) / float(highest - lowest)
                found[feasible] = (100.0 * share).astype(np.int64)
        return found
