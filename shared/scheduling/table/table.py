"""The nodes of one shard as columns, and the ledger of what is charged to them.

Rows are in tie order (ascending keyed hash of the node's uid), so that the first of several equal
rows is the one to take. Rows move when nodes come and go: a node's id is its identity, its row an
encoding of the moment. The table knows amounts, devices and ports; which pod caused a charge is
its owner's business. Same nodes and same charges give the same table, in whatever order they came.
"""

from collections.abc import Hashable, Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from shared.model.ids import NodeId
from shared.model.objects import CPU, GPU, MEMORY, PODS, Node, Taint
from shared.scheduling.api.custom.plugin import Node as ShownNode
from shared.scheduling.claims.live_claims import LiveClaims
from shared.scheduling.table.changes import ChangeLog, runs
from shared.scheduling.table.column_minima import ColumnMinima
from shared.scheduling.table.counters import Counters
from shared.scheduling.table.devices import charge_devices, charge_one, derive_columns, ledger_of
from shared.scheduling.table.images import Images
from shared.scheduling.table.labels import LabelColumn
from shared.scheduling.table.layout import (
    ALLOC,
    AMOUNT_MAX,
    COUNTED_MAX,
    DEVICE_MILLI,
    DEVICES_MAX,
    F64,
    FREE,
    I32,
    I64,
    PERCENT,
    ROOM,
    SCORED_MAX,
    Mask,
)
from shared.scheduling.table.level_domains import LevelDomains
from shared.scheduling.table.oversize_sums import OversizeSums
from shared.scheduling.table.ports import PortLedger
from shared.scheduling.volumes.storage import Storage

if TYPE_CHECKING:
    from shared.scheduling.api.custom.reserve import Reserving
    from shared.scheduling.cycle.score_classes import StaticResult
    from shared.scheduling.cycle.signature import Signature

TieKey = tuple[bytes, str]
TaintClass = tuple[tuple[Taint, ...], bool]


def tie_key(seed: int, uid: str) -> TieKey:
    """Return a node's key in tie order: the same on every machine, different for each seed."""
    key = seed.to_bytes(8, "little", signed=True)
    return blake2b(uid.encode(), digest_size=8, key=key).digest(), uid


class NodeTable:
    """Columns of n nodes. Public arrays are read-only by contract; all have one entry a row."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.ids: I64 = np.zeros(0, np.int64)
        self.nodes: list[Node] = []
        self.resources: dict[str, int] = {CPU: 0, MEMORY: 1, PODS: 2}
        # Resources scored besides cpu and memory: columns of allocatable and requested amounts.
        self.scored: dict[str, tuple[int, int]] = {}
        self.rooms: dict[str, Reserving] = {}  # resources that users' plugins hand out
        self.cols: F64 = np.zeros((FREE + 3, 0))
        self.allocatable: F64 = np.zeros((3, 0))
        self.gpu_free: I32 = np.zeros((0, 8), np.int32)  # missing devices count as 0 free
        self.gpu_count: I64 = np.zeros(0, np.int64)
        self.generation: I64 = np.zeros(0, np.int64)
        self.taint_class: I32 = np.zeros(0, np.int32)
        self.taint_classes: list[TaintClass] = []
        self.images = Images()
        self.ports = PortLedger()
        self.counters = Counters()
        self.storage = Storage()
        self.claims = LiveClaims()
        self.changes = ChangeLog()
        self.lowest = ColumnMinima()
        self.beyond = OversizeSums()
        self.whole = True  # every node has some cpu and some memory
        self.static_version = 0  # rises when anything but amounts changes on a node
        self.parent: NodeTable | None = None
        # Static parts of signatures by what static plugins read; kept by score_classes.static_of.
        self.statics: dict[Hashable, StaticResult] = {}
        self.statics_of = (-1, -1)
        # Signatures whose rows serve others too; kept by kernel.shared_by.
        self.alike: dict[Hashable, Signature] = {}
        self.forked_at = 0  # of a trial: the position of its table's changes
        self.within: Mask | None = None  # of a trial: the only nodes that may be picked
        self._keys: list[TieKey] = []
        self._rows: dict[NodeId, int] = {}
        self._taint_index: dict[TaintClass, int] = {}
        self._labels: dict[str, LabelColumn] = {}
        self._domains: dict[tuple[str, ...], LevelDomains] = {}
        self._names: dict[str, int] | None = None
        self._models: LabelColumn | None = None
        self._shown: list[ShownNode] | None = None

    # ------------------------------------------------------------------------------ reading

    @property
    def size(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)

    @property
    def requested(self) -> F64:
        """Return the charged amounts, shape (resources, n), in the order of `resources`."""
        return self.allocatable - self.cols[FREE:]

    def row_of(self, node_id: NodeId) -> int | None:
        """Return the node's present row, None if the table does not have it."""
        return self._rows.get(node_id)

    def rows_of(self, node_ids: Iterable[NodeId]) -> I64:
        """Return the rows of known nodes; others are left out."""
        found = (self._rows.get(node_id) for node_id in node_ids)
        return np.array([row for row in found if row is not None], np.int64)

    def node_id_at(self, row: int) -> NodeId:
        """Return the id of the node in a row."""
        return NodeId(self.ids.item(row))

    def row_named(self, name: str) -> int | None:
        """Return the row of the node with this name, or None."""
        if self._names is None:
            self._names = {node.name: row for row, node in enumerate(self.nodes)}
        return self._names.get(name)

    def labels(self, key: str) -> LabelColumn:
        """Return the column of one label's values, made at its first use."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = LabelColumn([node.labels.get(key) for node in self.nodes])
        return column

    def domains(self, levels: tuple[str, ...]) -> LevelDomains:
        """Return the nodes by topology domain of these labels, made at the first use."""
        found = self._domains.get(levels)
        if found is None:
            columns = [self.labels(key) for key in levels]
            found = self._domains[levels] = LevelDomains(columns, self.size)
        return found

    def shown(self) -> list[ShownNode]:
        """Return the nodes as users' plugins see them one by one, made at the first use."""
        if self._shown is None:
            self._shown = [
                ShownNode(one.name, one.labels, one.taints, one.unschedulable) for one in self.nodes
            ]
        return self._shown

    def gpu_models(self) -> LabelColumn:
        """Return the column of GPU models; nodes without GPUs have none."""
        if self._models is None:
            models = [node.gpu_model or None for node in self.nodes]
            self._models = LabelColumn(models)
        return self._models

    def resource(self, name: str) -> int:
        """Return the index of a resource; a new one gets a row of zeros."""
        index = self.resources.get(name)
        if index is None:
            index = self.resources[name] = self._add_columns(1)
        return index

    def score_resources(self, names: Iterable[str]) -> None:
        """Add score columns for resources, which nominations do not change. Before any charge."""
        for name in names:
            if name not in self.scored:
                first = FREE + self._add_columns(2)
                self.scored[name] = (first, first + 1)
        self._set_amounts(np.arange(self.size))

    def hand_out(self, plugins: Iterable["Reserving"]) -> None:
        """Add resources that users' plugins hand out. Before any charge."""
        for one in plugins:
            self.resource(one.resource)
            self.rooms.setdefault(one.resource, one)
        self._set_amounts(np.arange(self.size))

    def _add_columns(self, count: int) -> int:
        """Add columns of zeros after those of resources; return the index of the first."""
        index = len(self.allocatable)
        zeros = np.zeros((count, self.size))
        self.allocatable = np.concatenate((self.allocatable, zeros))
        self.cols = np.concatenate((self.cols, zeros))
        return index

    # ------------------------------------------------------------------------------ nodes

    def set_nodes(self, ids: Iterable[NodeId], nodes: Sequence[Node]) -> None:
        """Add or change nodes; charges stay with the node's id."""
        assert self.parent is None, "a trial keeps the nodes it was made with"
        fresh: dict[NodeId, Node] = {}
        changed: list[int] = []
        for node_id, node in zip(ids, nodes, strict=True):
            row = self._rows.get(node_id)
            if row is None:
                fresh[node_id] = node
            else:
                self._change(row, node)
                changed.append(row)
        if changed:
            self._mark(np.array(changed, np.int64))
        if fresh:
            self._append(fresh)

    def remove_nodes(self, ids: Iterable[NodeId]) -> None:
        """Remove nodes and everything charged to them; unknown ids are ignored."""
        assert self.parent is None, "a trial keeps the nodes it was made with"
        rows = self.rows_of(ids)
        if rows.size == 0:
            return
        kept = np.ones(self.size, np.bool_)
        kept[rows] = False
        for row in rows.tolist():
            self.ports.forget(self.node_id_at(row))
        if self.beyond.sums:
            self.beyond.forget(self.ids[rows].tolist())
        self._keep(np.flatnonzero(kept))

    def _change(self, row: int, node: Node) -> None:
        before = self.nodes[row]
        assert before.uid == node.uid, f"node id {self.ids[row]}: {before.uid} became {node.uid}"
        self.nodes[row] = node
        self._set_amounts(np.array([row]))
        self._set_devices(np.array([row]))
        self.images.changed(row, before, node)
        if _static_part(before) != _static_part(node):
            self.taint_class[row] = self._class_of(node)
            self._static_changed()

    def _append(self, fresh: dict[NodeId, Node]) -> None:
        first, count = self.size, len(fresh)
        self.nodes.extend(fresh.values())
        self._keys.extend(tie_key(self.seed, node.uid) for node in fresh.values())
        self.ids = np.concatenate((self.ids, np.array(list(fresh), np.int64)))
        for name in ("cols", "allocatable"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.zeros((len(old), count))), axis=1))
        self.counters.grow(count)
        self.images.grow(list(fresh.values()))
        devices = np.zeros((count, self.gpu_free.shape[1]), np.int32)
        self.gpu_free = np.concatenate((self.gpu_free, devices))
        for name in ("gpu_count", "generation"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.zeros(count, np.int64))))
        classes = [self._class_of(node) for node in fresh.values()]
        self.taint_class = np.concatenate((self.taint_class, np.array(classes, np.int32)))
        self._set_amounts(np.arange(first, self.size))
        self._set_devices(np.arange(first, self.size))
        order = sorted(range(self.size), key=self._keys.__getitem__)
        self._keep(np.array(order, np.int64))

    def _keep(self, order: I64) -> None:
        """Reorder the rows: they become those of `order`."""
        self.nodes = [self.nodes[row] for row in order.tolist()]
        self._keys = [self._keys[row] for row in order.tolist()]
        self.ids = self.ids[order]
        self.cols = np.ascontiguousarray(self.cols[:, order])
        self.allocatable = np.ascontiguousarray(self.allocatable[:, order])
        self.gpu_free = self.gpu_free[order]
        self.gpu_count = self.gpu_count[order]
        self.generation = self.generation[order]
        self.taint_class = self.taint_class[order]
        self.counters.keep(order)
        self.images.keep(order, self.nodes)
        self._rows = {node_id: row for row, node_id in enumerate(self.ids.tolist())}
        self.changes.restart()
        self._static_changed()

    def _static_changed(self) -> None:
        self.static_version += 1
        self._labels.clear()
        self._domains.clear()
        self._names = None
        self._models = None
        self._shown = None

    def _class_of(self, node: Node) -> int:
        key = (node.taints, node.unschedulable)
        index = self._taint_index.get(key)
        if index is None:
            index = self._taint_index[key] = len(self.taint_classes)
            self.taint_classes.append(key)
        return index

    def _set_amounts(self, rows: I64) -> None:
        """Take over what is allocatable on the nodes of these rows."""
        if not len(rows):
            return
        nodes = [self.nodes[row] for row in rows.tolist()]
        for node in nodes:
            for name, _ in node.allocatable:
                if name not in self.resources:
                    self.resource(name)
        amounts = np.array([self._amounts(node) for node in nodes]).T
        delta = amounts - self.allocatable[:, rows]
        self.allocatable[:, rows] = amounts
        if self.beyond.sums:
            for row, added in zip(rows.tolist(), delta.T, strict=True):
                self._add_exactly(enumerate(added.tolist(), start=FREE), row)
                self._add_exactly(enumerate((added[:2] * PERCENT).tolist(), start=ROOM), row)
        else:
            self.cols[FREE:, rows] += delta
            self.cols[ROOM : ROOM + 2, rows] += delta[:2] * PERCENT
        self.cols[ALLOC : ALLOC + 2, rows] = amounts[:2]
        self.whole = self.whole and bool(amounts[:2].all())

    def _amounts(self, node: Node) -> list[float]:
        """Return what is allocatable on a node, by resource."""
        amounts = [0.0] * len(self.allocatable)
        for name, amount in node.allocatable:
            scored = name in (CPU, MEMORY)
            amounts[self.resources[name]] = min(float(amount), SCORED_MAX if scored else AMOUNT_MAX)
            if name in self.scored:
                amounts[self.scored[name][0] - FREE] = min(float(amount), SCORED_MAX)
        for name, one in self.rooms.items():
            amounts[self.resources[name]] = one.room(node)
        if GPU in self.scored:
            amounts[self.scored[GPU][0] - FREE] = float(DEVICE_MILLI * node.gpu_count)
        assert min(amounts) >= 0.0, f"node {node.name} has a negative allocatable"
        return amounts

    def _set_devices(self, rows: I64) -> None:
        # A device that disappears takes its milli with it, so that charges on it stay exact
        # (negative free) and are even again if it returns.
        changed: dict[tuple[int, int], list[int]] = {}
        for row, before in zip(rows.tolist(), self.gpu_count[rows].tolist(), strict=True):
            node = self.nodes[row]
            count = node.gpu_count
            assert 0 <= count <= COUNTED_MAX, f"node {node.name} has {count} GPUs"
            if count != before:
                changed.setdefault((before, count), []).append(row)
        for (before, count), alike in changed.items():
            self._widen(min(count, DEVICES_MAX))
            width = self.gpu_free.shape[1]
            self.gpu_free[alike] += ledger_of(count, width) - ledger_of(before, width)
            self.gpu_count[alike] = count
        derive_columns(self, rows)

    def _widen(self, devices: int) -> None:
        if devices > self.gpu_free.shape[1]:
            wider = np.zeros((self.gpu_free.shape[0], devices), np.int32)
            wider[:, : self.gpu_free.shape[1]] = self.gpu_free
            self.gpu_free = wider

    # ------------------------------------------------------------------------------ charges

    def charge(self, sig: "Signature", rows: I64, masks: I64 | None = None, sign: int = 1) -> None:
        """Charge (+1) or release (-1) one pod of `sig` on each of `rows` (repeats count).

        `masks` are the device masks of pods with GPUs, parallel to `rows`.
        """
        assert sign in (1, -1)
        if len(rows) == 0:
            return
        if sig.gpu_count:
            assert masks is not None, "a GPU pod without its devices"
            assert len(masks) == len(rows), "devices and rows differ in number"
        if len(rows) == 1:
            self.charge_one(sig, int(rows[0]), 0 if masks is None else int(masks[0]), sign)
            return
        self._charge_many(sig, rows, sign)
        if masks is not None and sig.gpu_count:
            self._widen(int(masks.max()).bit_length())  # the node may have had more devices
            charge_devices(self, sig, rows, masks, sign)
        if sig.ports:
            for node_id in self.ids[rows].tolist():
                self.ports.charge(node_id, sig.ports, sign)
        if sig.counted or sig.uses:
            self.counters.charge(sig, rows, sign)
        self._mark(rows)

    def charge_one(self, sig: "Signature", row: int, mask: int, sign: int = 1) -> None:
        """`charge` for one pod, without arrays."""
        if sig.is_large or self.beyond.sums:
            self._add_exactly(sig.delta, row, sign)
        else:
            values = self.cols[:, row]
            for column, amount in sig.delta:
                values[column] += amount * sign
        if sig.gpu_count:
            self._widen(mask.bit_length())
            charge_one(self, sig, row, mask, sign)
        if sig.ports:
            self.ports.charge(self.node_id_at(row), sig.ports, sign)
        if sig.counted or sig.uses:
            self.counters.charge_one(sig, row, sign)
        self.generation[row] += 1
        self.changes.append_one(row)

    def _charge_many(self, sig: "Signature", rows: I64, sign: int) -> None:
        # Picks come in runs of one node: a run costs as much as one pod.
        bounds = runs(rows)
        counts = (bounds[1:] - bounds[:-1]) * float(sign)
        heads = rows[bounds[:-1]]
        if sig.is_large or self.beyond.sums:
            for row, count in zip(heads.tolist(), counts.tolist(), strict=True):
                self._add_exactly(sig.delta, row, int(count))
            return
        for column, amount in sig.delta:
            if amount:
                np.add.at(self.cols[column], heads, counts * amount)

    def _add_exactly(self, delta: Iterable[tuple[int, float]], row: int, times: int = 1) -> None:
        """Add amounts whose sums may exceed what a column holds."""
        values, node_id = self.cols[:, row], self.node_id_at(row)
        for column, amount in delta:
            values[column] = self.beyond.add(
                node_id, column, float(values[column]), int(amount) * times
            )

    def _mark(self, rows: I64) -> None:
        if len(rows) == 1:  # numpy costs five times as much for one row
            row = int(rows[0])
            self.generation[row] += 1
            self.changes.append_one(row)
        else:
            self.generation[rows] += 1
            self.changes.append(rows)

    def trial(self) -> "NodeTable":
        """Return a copy whose charges do not change this table; both share the nodes.

        Valid until this table changes. Costs a copy of the ledger, not of the nodes.
        """
        assert self.parent is None, "a trial of a trial"
        twin = NodeTable(self.seed)
        shared_parts = (
            *("ids", "nodes", "resources", "scored", "allocatable", "gpu_count", "taint_class"),
            *("taint_classes", "static_version", "whole", "_keys", "_rows", "_taint_index"),
            *("_labels", "_domains", "_names", "_models", "_shown", "images", "storage", "claims"),
        )
        for name in shared_parts:
            setattr(twin, name, getattr(self, name))
        twin.cols = self.cols.copy()
        twin.gpu_free = self.gpu_free.copy()
        twin.generation = self.generation.copy()
        twin.beyond = self.beyond.copy()
        twin.ports = self.ports.copy()
        twin.counters = self.counters.twin()
        twin.parent = self
        twin.forked_at = self.changes.position
        return twin


def _static_part(node: Node) -> tuple[object, ...]:
    read = node.name, node.labels, node.taints, node.unschedulable, node.gpu_model
    return (*read, node.features)
