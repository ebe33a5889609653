"""InterPodAffinity: which pods a pod must, must not, or prefers to share a domain with.

It works both ways: existing pods refuse with their own anti-affinity, and attract or repel with
their preferred terms; their required affinity attracts with weight 1. Namespace selectors are read
differently in the pod's own terms and in those of existing pods (see selectors.sought).
"""

from typing import NamedTuple

import numpy as np

from shared.model.objects import PodSpec
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
from shared.scheduling.table.selectors import sought
from shared.scheduling.table.table import NodeTable

NAME = "InterPodAffinity"
NOT_AFFINE = "node(s) didn't match pod affinity rules"
NOT_ANTI_AFFINE = "node(s) didn't match pod anti-affinity rules"
EXISTING_REFUSE = "node(s) didn't satisfy existing pods anti-affinity rules"


class _Term(NamedTuple):
    """Pods in one counter, by domain; `weight` if they are scored."""

    counter: int
    domains: Domains
    weight: int = 0

    def by_node(self, counts: Counts) -> I64 | I32:
        """Return how many of them are in each node's domain; 0 for nodes in none."""
        return self.domains.by_node(counts.row(self.counter))

    def has_pods(self, counts: Counts) -> bool:
        """Return whether any of the pods is on a node with the key."""
        row = counts.row(self.counter)
        return bool(row.any() if self.domains.anywhere else row[~self.domains.absent].any())


class Affinity:
    """The terms that concern one signature on the present nodes."""

    def __init__(self, table: NodeTable, spec: PodSpec, hard_weight: int = 1) -> None:
        """`hard_weight`: the weight of an existing pod's required affinity."""
        counters, known = table.counters, {}

        def term(key: str, at: int, weight: int = 0) -> _Term:
            if key not in known:
                known[key] = Domains(table.labels(key))
            return _Term(at, known[key], weight)

        def matching(one: Matching) -> int:
            return counters.index[one]

        self.affine: list[_Term] = []
        self.itself = False  # it may be the first pod of its own group
        if spec.pod_affinity:
            wanted = affinity_counter(spec)
            at = matching(wanted)
            self.affine = [term(one.topology_key, at) for one in spec.pod_affinity]
            self.itself = wanted.matches(spec, counters.labels_of)
        self.anti = [
            term(one.topology_key, matching(Matching((sought(one, spec),))))
            for one in spec.pod_anti_affinity
        ]
        self.opposed = [term(key, at) for key, at in counters.owned(OPPOSED, spec)]
        self.scored = [
            term(
                one.term.topology_key,
                matching(Matching((sought(one.term, spec),))),
                one.weight,
            )
            for one in spec.pods_preferred
        ]
        for kind, weight in ((PREFERRED, 1), (AVOIDED, 1), (AFFINE, hard_weight)):
            if not weight:
                continue
            self.scored += [term(key, at, weight) for key, at in counters.owned(kind, spec)]

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
            lowest, highest = int(among.min()), int(among.max())
            if highest > lowest:
                share = (among - lowest).astype(np.float64) / float(highest - lowest)
                found[feasible] = (100.0 * share).astype(np.int64)
        return found
