"""A plan: which pods to move where, so that more pods of one kind fit.

Packing the whole cluster from scratch would move most pods. This plan is greedy. It tries the nodes
one by one, first those whose pods lose the least work, and moves the pods in the way if every one
of them fits on another node. Nodes of the plan receive no pods, and a moved pod stays where it is,
so each pod moves at most once. Each node is tried once, and once more for each place. Ordering the
nodes by the room that their pods need elsewhere makes one place in 200 more, and loses a third more
work (loadtest/defrag.py).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from muster.defrag.cluster import Cluster, RunningPod
from services.placement.core.books.charges import table_rows
from services.placement.core.preemption.nominations import nominated_pods_for
from shared.model.ids import NodeId
from shared.model.objects import CPU, GPU, MEMORY, PodSpec
from shared.scheduling.cycle.inter_pod_rules import fits
from shared.scheduling.cycle.one_node import OneNode
from shared.scheduling.cycle.score_classes import static_of
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.layout import DEVICE_MILLI, GPU_EMPTY, I64, Mask

RESTART_MS = 600_000
"""The cost of a move besides the lost work: the time until a new pod works."""
WHOLE_MILLI = 1_000


class Move(Struct, frozen=True):
    """A pod that leaves `from_node`. It fits on `to_node` when its turn comes. `lost_ms`: how long
    it has run.
    """

    pod: str
    uid: str
    owner: str
    from_node: str
    to_node: str
    lost_ms: int
    cpu_milli: int
    gpu_milli: int


class FreedNode(Struct, frozen=True):
    """A node on which one more pod fits after these moves."""

    node: str
    moves: tuple[Move, ...]


class Stays(Struct, frozen=True):
    """A pod in the way that must not be moved, and why."""

    pod: str
    node: str
    reason: str


class Plan(Struct, frozen=True):
    """`free`: the nodes where a pod fits now, once for each pod. `domain`: the value of the
    topology key, if there is one.
    """

    free: tuple[str, ...]
    places: tuple[FreedNode, ...]
    stays: tuple[Stays, ...]
    domain: str = ""

    @property
    def moves(self) -> list[Move]:
        """Return all moves, in order."""
        return [move for place in self.places for move in place.moves]

    @property
    def cost(self) -> tuple[int, int]:
        """Return the lost work in milliseconds of a GPU, or of a CPU core where no pod has GPUs,
        and the number of moves.
        """
        moves = self.moves
        gpu = sum(one.gpu_milli * one.lost_ms for one in moves)
        lost = gpu or sum(one.cpu_milli * one.lost_ms for one in moves)
        return lost // WHOLE_MILLI, len(moves)


def plan(cluster: Cluster, count: int | None = None) -> Plan:
    """Return the plan for `count` pods, with those that fit now; None: for as many as can be."""
    return _Planner(cluster, None).run(count)


def plan_in_domain(cluster: Cluster, count: int, topology_key: str) -> Plan:
    """Return the plan after which `count` pods fit in one topology domain: in the one where that
    costs least, or else where most fit.
    """
    table = cluster.state.table
    column = [node.labels.get(topology_key, "") for node in table.nodes]
    found = []
    for value in sorted(set(column) - {""}):
        within = np.array([one == value for one in column], np.bool_)
        found.append(replace(_Planner(cluster, within).run(count), domain=value))
    if not found:
        return Plan((), (), ())
    return min(found, key=lambda one: (-len(one.free) - len(one.places), one.cost, one.domain))


class _Seat(NamedTuple):
    """A pod on a row of the table. `size_milli`: its largest share of what a wanted pod requests,
    in thousandths.
    """

    pod: RunningPod
    sig: Signature
    row: int
    mask: int
    size_milli: int

    @property
    def cost(self) -> int:
        return self.size_milli * (self.pod.ran_ms + RESTART_MS)


class _Planner:
    """Makes one plan on a trial table."""

    def __init__(self, cluster: Cluster, within: Mask | None) -> None:
        state = self._state = cluster.state
        self._table = state.table.trial()
        self._wanted = state.sigs[cluster.wanted]
        self._amounts = _amounts(self._wanted.spec)
        passing = static_of(state.table, self._wanted.spec, self._wanted.plugins).ok
        size = self._table.size
        self._can_host = np.ones(size, np.bool_) if passing is None else passing.copy()
        if within is not None:
            self._can_host &= within
        self._is_open = np.ones(size, np.bool_)  # may receive pods
        self._seats: list[list[_Seat]] = [[] for _ in range(size)]
        self._stays: list[list[_Seat]] = [[] for _ in range(size)]
        self._read(cluster)

    def _read(self, cluster: Cluster) -> None:
        """Fill the rows with their pods, those in the way that stay apart."""
        state, ledger = self._state, self._state.ledger
        charged = ledger.charged()
        rows = table_rows(state, ledger.node[charged].astype(np.int64))
        here = (rows >= 0) & self._can_host[rows]
        for at, row in zip(charged[here].tolist(), rows[here].tolist(), strict=True):
            pod = cluster.pods.get(ledger.pod_at(at))
            if pod is None:
                continue
            sig = state.sigs[ledger.sig_at(at)]
            seat = _Seat(pod, sig, row, int(ledger.devices[at]), self._size(sig.spec))
            (self._stays if pod.stays else self._seats)[row].append(seat)

    def _size(self, spec: PodSpec) -> int:
        has = _amounts(spec)
        shares = (WHOLE_MILLI * has.get(name, 0) // most for name, most in self._amounts.items())
        return min(WHOLE_MILLI, max(shares, default=0))

    def run(self, count: int | None) -> Plan:
        """Return the plan."""
        limit = self._table.size * WHOLE_MILLI if count is None else count
        free = list(self._take_free(limit))
        places: list[FreedNode] = []
        rows = self._ordered()
        self._never = np.ones(self._table.size, np.bool_)
        self._never[rows] = False
        for row in rows:
            while len(free) + len(places) < limit:
                place = self._make_place(row)
                if place is None:
                    break
                places.append(place)
        return Plan(tuple(free), tuple(places), tuple(self._in_the_way()))

    def _take_free(self, limit: int) -> Iterator[str]:
        """Charge wanted pods where they fit now: that room is not for others."""
        taken = 0
        for row in self._fitting(self._wanted, self._can_host).tolist():
            node = OneNode(self._table, row)
            while taken < limit and self._fits(node):
                self._charge_wanted(node)
                taken += 1
                yield self._table.nodes[row].name
                node = OneNode(self._table, row)

    def _charge_wanted(self, node: OneNode) -> None:
        self._table.charge_one(self._wanted, node.row, node.pick_devices(self._wanted))
        self._is_open[node.row] = False

    def _fits(self, node: OneNode) -> bool:
        """Return whether a wanted pod fits on a node that passes the static filters."""
        for sig, mask in self._nominated(self._wanted).get(
            self._table.node_id_at(node.row), ()
        ):  # pods that others wait to place there keep their room
            node.add_nominated(sig, mask)
        return fits(self._table, self._wanted, node)

    def _nominated(self, sig: Signature) -> dict[NodeId, list[tuple[Signature, int]]]:
        if not self._state.nominations:
            return {}
        return nominated_pods_for(self._state, sig.spec.priority, queue=sig.spec.queue)

    def _ordered(self) -> list[int]:
        """Return the rows on which a place can be made if all pods in the way find a node, the
        cheapest first.
        """
        found = []
        for row in np.flatnonzero(self._can_host).tolist():
            leaving = self._leaving(row)
            if leaving:
                found.append((sum(one.cost for one in leaving), len(leaving), row))
        return [row for _cost, _pods, row in sorted(found)]

    def _leaving(self, row: int) -> list[_Seat]:
        """Return the pods that must leave for a place on this node; empty if that does not help.
        Pods that cost most are kept first.
        """
        node = OneNode(self._table, row)
        seats = self._seats[row]
        for one in seats:
            node.remove(one.sig, one.mask)
        if not self._fits(node):
            return []
        leaving = []
        for one in sorted(seats, key=lambda seat: (-seat.cost, seat.pod.name)):
            node.add(one.sig, one.mask)
            if not fits(self._table, self._wanted, node):
                node.remove(one.sig, one.mask)
                leaving.append(one)
        return leaving

    def _make_place(self, row: int) -> FreedNode | None:
        """Move the pods in the way to other nodes; return None, with nothing changed, if one of
        them has none.
        """
        leaving = self._leaving(row)
        if not leaving:
            return None
        table = self._table
        was_open = self._is_open[row]
        for one in leaving:
            table.charge_one(one.sig, row, one.mask, -1)
        self._is_open[row] = False
        moved: list[_Seat] = []
        for one in sorted(leaving, key=lambda seat: (-seat.size_milli, seat.pod.name)):
            to = self._receiver(one.sig)
            if to is None:
                break
            mask = OneNode(table, to).pick_devices(one.sig)
            table.charge_one(one.sig, to, mask)
            moved.append(one._replace(row=to, mask=mask))
        if len(moved) < len(leaving):
            for one in moved:
                table.charge_one(one.sig, one.row, one.mask, -1)
            for one in leaving:
                table.charge_one(one.sig, row, one.mask)
            self._is_open[row] = was_open
            return None
        self._charge_wanted(OneNode(table, row))
        gone = {one.pod.uid for one in leaving}
        self._seats[row] = [one for one in self._seats[row] if one.pod.uid not in gone]
        names = table.nodes
        return FreedNode(
            names[row].name,
            tuple(_move(one, names[row].name, names[one.row].name) for one in moved),
        )

    def _fitting(self, sig: Signature, among: Mask) -> I64:
        rows = self._state.kernel.fitting(self._table, sig, self._nominated(sig))
        return rows[among[rows]]

    def _receiver(self, sig: Signature) -> int | None:
        """Return the node that is best for a moved pod: first one that can never be a place, then
        where it breaks no whole device, then the one with the least left.
        """
        rows = self._fitting(sig, self._is_open)
        if not len(rows):
            return None
        table = self._table
        free = table.gpu_free[rows]
        keys = [
            rows,
            table.cols[self._wanted_columns(), :][:, rows].sum(axis=0),
            free.sum(axis=1),
            table.cols[GPU_EMPTY, rows],
        ]
        if sig.gpu_count and not sig.whole_devices:
            part = (free >= sig.gpu_milli) & (free < DEVICE_MILLI)
            keys.append(~part.any(axis=1))
        keys.append(~self._never[rows])
        return int(rows[np.lexsort(keys)[0]])

    def _wanted_columns(self) -> list[int]:
        return [column for column, _amount in self._wanted.amount_checks]

    def _in_the_way(self) -> Iterable[Stays]:
        """Yield the pods that stay on nodes where a wanted pod could be, and take of it."""
        for row in np.flatnonzero(self._can_host & self._is_open).tolist():
            for one in self._stays[row]:
                if one.size_milli:
                    yield Stays(one.pod.name, self._table.nodes[row].name, one.pod.stays)


def _amounts(spec: PodSpec) -> dict[str, int]:
    """Return the requests; GPUs in thousandths."""
    gpu = 0 if spec.gpu is None else spec.gpu.milli * spec.gpu.count
    found = {CPU: spec.request(CPU), MEMORY: spec.request(MEMORY), **dict(spec.requests), GPU: gpu}
    return {name: amount for name, amount in found.items() if amount}


def _move(seat: _Seat, from_node: str, to_node: str) -> Move:
    spec = seat.sig.spec
    gpu_milli = 0 if spec.gpu is None else spec.gpu.milli * spec.gpu.count
    pod = seat.pod
    names = pod.name, pod.uid, pod.owner, from_node, to_node
    return Move(*names, pod.ran_ms, spec.request(CPU), gpu_milli)
