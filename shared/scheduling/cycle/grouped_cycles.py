"""k single cycles of one signature with inter-pod rules, over groups of nodes.

A pick moves the counts of a domain, so each of the k cycles asks the rules again. Asking them about
each node costs 200 us with 12,500 nodes. But most nodes are alike to the rules: nodes of one domain
of each topology key and of one score class, with equal counts where a rule reads those of the node
alone (by host name). Such nodes form a group: they get the same verdict and the same scores, and
differ only in their local scores. So the rules are asked about one node of each group, with the
counts of the whole group. Of each group only its best node can be picked: the first of those with
the highest local score. A pick changes the local score of one node, and perhaps its group.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

import numpy as np

from shared.scheduling.cycle.inter_pod_rules import Rules, SingleCycles, nominated_counts
from shared.scheduling.cycle.score_classes import StaticResult
from shared.scheduling.table.counters import Counts
from shared.scheduling.table.layout import I16, I32, I64, INFEASIBLE, Mask
from shared.scheduling.table.picks import Pick

GROUPS_MAX = 256
GROWN_MAX = 512  # from there on a batch goes on over all nodes
CODES_MAX = 1 << 20
Key = tuple[int, ...]


def grouped(cycles: SingleCycles) -> SingleCycles:
    """Return the same cycles, over groups unless there are too many."""
    nominated = nominated_counts(cycles.table, cycles.counts, cycles.nominated_pods)
    kinds = _kinds(cycles.rules, cycles.static, cycles.table.size)
    if kinds is None or cycles.sig.uses or any(nominated):
        return cycles
    by_node = cycles.rules.read_by_node()
    of: I16 | None = kinds
    if by_node:
        of = _numbered(len(kinds), (kinds, *(cycles.counts.row(at) for at in by_node)))
    return cycles if of is None else GroupedCycles(cycles, kinds, of, by_node)


def _kinds(rules: Rules, static_result: StaticResult, nodes: int) -> I16 | None:
    """Return a number for each node, equal for nodes that are alike besides counts; None if there
    are too many. It is kept with the rules.
    """
    if rules.kinds is None or rules.kinds[0] is not static_result:
        columns, class_of = rules.columns(), static_result.class_of
        columns = columns if class_of is None else [class_of, *columns]
        kinds = _numbered(nodes, columns)
        rules.kinds = static_result, kinds
    return rules.kinds[1]


def _numbered(nodes: int, columns: Iterable[I64 | I32 | I16 | Mask]) -> I16 | None:
    """Return a number for each node, from 0 on: equal for nodes with equal values in all columns.
    None if there are more than GROUPS_MAX.
    """
    found = np.zeros(nodes, np.int64)
    for column in columns:
        lowest, highest = int(column.min()), int(column.max())
        width = highest - lowest + 1
        if width > CODES_MAX:
            return None
        if lowest < highest:
            codes = found * width + (column - lowest)
            present = np.bincount(codes) > 0
            if np.count_nonzero(present) > GROUPS_MAX:
                return None
            found = (present.cumsum() - 1)[codes]
    return found.astype(np.int16)


class GroupCounts(Counts):
    """Counts by group, for those by node. `of`: the group of each node. `sizes`: the nodes of each
    group, `feasible`: those of them with room for one more pod.
    """

    def __init__(self, by_node: Counts, of: I16, feasible: Mask) -> None:
        self.of, self.sizes = of, np.bincount(of)
        self.feasible = np.bincount(of[feasible], minlength=len(self.sizes))
        self._by_node = by_node
        self._by_group: dict[int, I32] = {}

    @property
    def nodes(self) -> int:
        """Return the number of groups."""
        return len(self.sizes)

    def row(self, at: int) -> I32:
        """Return one counter of every group, shape (groups,). Read-only for the caller."""
        found = self._by_group.get(at)
        if found is None:
            sums = np.bincount(self.of, self._by_node.row(at), self.nodes)
            found = self._by_group[at] = sums.astype(np.int32)
        return found

    def each(self, at: int) -> I32:
        """Return one counter on each node of every group, shape (groups,)."""
        found: I32 = self.row(at) // np.maximum(self.sizes, 1)
        return found

    def number(self, among: Mask) -> int:
        """Return the number of feasible nodes in these groups."""
        return int(self.feasible[among].sum(dtype=np.int64))

    def append(self) -> int:
        """Add an empty group; return its number."""
        self.sizes, self.feasible = np.append(self.sizes, 0), np.append(self.feasible, 0)
        for at, sums in self._by_group.items():
            self._by_group[at] = np.append(sums, np.int32(0))
        return self.nodes - 1

    def stay(self, group: int, moved: dict[int, int], is_feasible: bool) -> None:
        """Count a pod on a feasible node that stays in its group."""
        self.feasible[group] -= not is_feasible
        for at, amount in moved.items():
            if at in self._by_group:
                self._by_group[at][group] += amount

    def leave(self, row: int, moved: dict[int, int]) -> None:
        """Remove a feasible node from its group, after a pod `moved` its counters by node."""
        group = self.of[row]
        self.sizes[group] -= 1
        self.feasible[group] -= 1
        for at, sums in self._by_group.items():
            sums[group] -= self._by_node.row(at)[row] - moved.get(at, 0)

    def join(self, row: int, group: int, is_feasible: bool) -> None:
        """Add a node to a group."""
        self.of[row] = group
        self.sizes[group] += 1
        self.feasible[group] += is_feasible
        for at, sums in self._by_group.items():
            sums[group] += self._by_node.row(at)[row]


class GroupedCycles(SingleCycles):
    """The picks of SingleCycles from one entry for each group. Only the first pick has the number
    of feasible nodes and a runner-up.
    """

    def __init__(self, cycles: SingleCycles, kinds: I16, of: I16, by_node: list[int]) -> None:
        """`by_node`: the counters that the rules read of single nodes."""
        super().__init__(
            *(cycles.table, cycles.sig, cycles.rules, cycles.static, cycles.local),
            cycles.nominated_pods,
        )
        self._kinds, self._by_node, self._moved = kinds, by_node, dict(self.sig.counted)
        self._sums = GroupCounts(self.counts, of.copy(), self.local >= 0)
        # All nodes, group by group, with their scores; a node that got a pod is in a heap instead.
        self._order = of.argsort(kind="stable")
        self._scores = self.local[self._order]
        ends = self._sums.sizes.cumsum().tolist()
        self._spans = list(zip([0, *ends], ends, strict=False))
        self._heaps: list[list[tuple[int, int]]] = [[] for _ in ends]
        # One node of each group, and of the best node its score, its row and its place above.
        self._some = self._order[[first for first, _ in self._spans]]
        self._best = np.zeros(len(ends), np.int64)
        self._rows = np.zeros(len(ends), np.int64)
        self._places = [-1] * len(ends)
        for group in range(len(ends)):
            self._find(group)
        self._compile()
        self._keys = [self._key(row) for row in self._some.tolist()] if by_node else []
        self._groups = {key: group for group, key in enumerate(self._keys)}
        self._empty: dict[int, list[int]] = {}  # by kind

    def _compile(self) -> None:
        self._some_rules = self.rules.among(self._some)
        class_of = self.static.class_of
        self._classes = None if class_of is None else class_of[self._some]
        self._terms = np.full(len(self._some), self.static.only_term)

    def next(self) -> Pick | None:
        """Return the pick of one cycle; None if no node fits the pod."""
        if len(self._some) > GROWN_MAX:
            return super().next()
        refused = self._some_rules.refused(self._sums)
        refused |= self._best < 0
        more = self._more(~refused)
        totals = self._best + more
        np.putmask(totals, refused, INFEASIBLE)
        group = int(totals.argmax())
        total = int(totals[group])
        if total < 0:
            return None
        same = (totals == total).nonzero()[0]
        if len(same) > 1:
            group = int(same[self._rows[same].argmin()])
        row = int(self._rows[group])
        if self._nodes:
            node = self._nodes.get(row) or self._node(row)
            return Pick(row, total, node.mask, 0, -1)
        first, stop = self._spans[group]
        others = self._scores[first:stop].copy()
        others[self._places[group] - first] = INFEASIBLE
        totals[group] = INFEASIBLE if others.max() < 0 else others.max() + more[group]
        feasible = self._sums.number(~refused)
        return Pick(row, total, self._node(row).mask, feasible, max(int(totals.max()), -1))

    def add(self, row: int) -> None:
        """Add a pod to the row of the last pick."""
        super().add(row)
        if len(self._some) > GROWN_MAX:
            return
        group, score = int(self._sums.of[row]), int(self.local[row])
        if self._places[group] < 0:
            heappop(self._heaps[group])
        else:
            self._scores[self._places[group]] = INFEASIBLE
        to = group
        if self._by_node:
            self._sums.leave(row, self._moved)
            to = self._next_group(row, group)
            self._sums.join(row, to, score >= 0)
        else:
            self._sums.stay(group, self._moved, score >= 0)
        if score >= 0:
            heappush(self._heaps[to], (-score, row))
        self._find(group)
        if to != group:
            self._find(to)

    def _find(self, group: int) -> None:
        """Find the group's best node."""
        first, stop = self._spans[group]
        score, row, place = INFEASIBLE, 0, -1
        if stop > first:
            place = first + int(self._scores[first:stop].argmax())
            score, row = int(self._scores[place]), int(self._order[place])
        heap = self._heaps[group]
        if heap and heap[0] < (-score, row):
            score, row, place = -heap[0][0], heap[0][1], -1
        self._best[group], self._rows[group], self._places[group] = score, row, place

    def _key(self, row: int) -> Key:
        return int(self._kinds[row]), *(int(self.counts.row(at)[row]) for at in self._by_node)

    def _next_group(self, row: int, group: int) -> int:
        """Return the group of a node that got a pod and left its group."""
        key = self._key(row)
        kind = key[0]
        if not self._sums.sizes[group]:
            del self._groups[self._keys[group]]
            self._empty.setdefault(kind, []).append(group)
        to = self._groups.get(key)
        if to is None:
            to = self._empty[kind].pop() if self._empty.get(kind) else self._append(row)
            self._groups[key] = to
            self._keys[to] = key
        return to

    def _append(self, row: int) -> int:
        """Add an empty group for nodes like this one; return its number."""
        self._some = np.append(self._some, row)
        self._best = np.append(self._best, INFEASIBLE)
        self._rows = np.append(self._rows, 0)
        self._places.append(-1)
        self._spans.append((0, 0))
        self._heaps.append([])
        self._keys.append(())
        self._compile()
        return self._sums.append()

    def _more(self, takes: Mask) -> I64:
        """Return what the nodes of each group have besides their local scores."""
        more = self._terms
        if self._classes is not None:
            counts = np.bincount(self._classes[takes], minlength=len(self.static.raws)).tolist()
            more = np.array(self.static.class_scores(counts), np.int64)[self._classes]
        for _, weight, normalised in self._some_rules.scores(self._sums, takes):
            more = more + weight * normalised
        return more
