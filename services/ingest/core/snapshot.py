"""Ingest's state as plain values and back, and the checks that are too expensive for every step.

Private encodings (slots, label set numbers, waiting codes) are replaced by places in sorted lists,
so equal states give equal bytes.
"""

from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.ingest.core.config import Config
from services.ingest.core.images import add_named, check_images, numbers_named
from services.ingest.core.nodes import SHARD_BITS, ZONE
from services.ingest.core.pods.default_spread import check_spread, load_spread
from services.ingest.core.queue_plugins import choose_plugins, queued_as
from services.ingest.core.signatures import add_labels, covers
from services.ingest.core.state import (
    OVERFLOW,
    Bracket,
    BudgetRecord,
    GangRecord,
    IngestState,
    NodeRecord,
    Signature,
    UnknownNode,
)
from shared.events.ingest import IngestEvent, ListAsked
from shared.model.cluster_objects import ClusterObject
from shared.model.columns import I64, join, pack, split, unpack
from shared.model.objects import Budget, Gang, Node, PodSpec

COUNTERS = (
    *("cluster", "revision", "seen_revision", "rejected", "listed_pods", "listed_objects"),
    *("next_pod", "next_node", "next_sig", "next_gang", "next_budget", "next_effect"),
)
Labels = tuple[tuple[str, str], ...]


_decoder = msgspec.msgpack.Decoder(PodSpec)


class Saved(msgspec.Struct, kw_only=True):
    """The shape of the dump."""

    counters: dict[str, Any]
    config: Config
    uids: str
    columns: dict[str, bytes]
    listed: bytes
    sigs: list[tuple[int, bytes]]
    labelsets: list[tuple[str, Labels]]
    owners: list[str] = []
    waiting: list[str]
    nodes: list[tuple[int, int, Node]]
    zone_shards: dict[str, int]
    left_shards: list[tuple[str, int]] = []
    budgets: list[tuple[int, Budget]]
    gangs: list[tuple[str, int, int, Gang | None]]
    objects: list[ClusterObject] = []
    interest: dict[str, list[str]] = {}
    brackets: dict[str, Bracket]
    broken_off: list[str] = []
    is_restored: bool = False
    is_rewound: bool = False
    marks: dict[str, int] = {}
    doubts: list[str]
    unlisted: list[str]
    effects: list[ListAsked]
    outbox: list[IngestEvent]
    happened: list[str] = []


def dump(state: IngestState) -> Any:
    """Return canonical plain values."""
    table = state.pods
    slots = table.live()
    labelsets = sorted(state.labelsets)
    waiting = sorted(name for name in state.waiting if name)
    columns = {
        name: pack(getattr(table, name)[slots].astype(np.int64))
        for name in ("ids", "revisions", "sigs", "gangs", "gated", "told", "terminating")
    }
    columns["labelsets"] = pack(_label_places(state, labelsets, table.labelsets[slots]))
    started_s = table.started_s[slots]
    if started_s.any():
        columns["started_s"] = pack(started_s.astype(np.int64))
    columns["nodes"] = pack(_node_codes(state, waiting, table.nodes[slots].astype(np.int64)))
    marks = table.marks[slots] == state.mark if "pods" in state.brackets else np.zeros(0, bool)
    saved = Saved(
        counters={name: getattr(state, name) for name in COUNTERS},
        config=state.config,
        uids=join(table.uids()),
        columns=columns,
        listed=marks.astype(np.int8).tobytes(),
        sigs=sorted((held.sig, key) for key, held in state.sigs.items()),
        labelsets=[(namespace, labels) for namespace, labels, _owner in labelsets],
        owners=[owner for _namespace, _labels, owner in labelsets],
        waiting=waiting,
        nodes=[
            (known.id, known.shard, known.node) for _id, known in sorted(state.node_by_id.items())
        ],
        zone_shards=dict(sorted(state.zone_shards.items())),
        left_shards=list(state.left_shards.items()),
        budgets=sorted((known.id, known.budget) for known in state.budgets.values()),
        gangs=[(key, g.id, g.version, g.gang) for key, g in sorted(state.gangs.items())],
        objects=[one for _uid, one in sorted(state.objects.items())],
        interest={name: sorted(keys) for name, keys in sorted(state.interest.items())},
        brackets=dict(sorted(state.brackets.items())),
        broken_off=sorted(state.broken_off),
        is_restored=state.is_restored,
        is_rewound=state.is_rewound,
        marks=dict(sorted(state.marks.items())),
        doubts=sorted(state.doubts),
        unlisted=sorted(state.unlisted),
        effects=[effect for _id, effect in sorted(state.effects.items())],
        outbox=cast(list[IngestEvent], list(state.outbox)),
        happened=sorted(state.events_to_publish),
    )
    body = msgspec.to_builtins(saved, builtin_types=(bytes,))
    # Empty newer fields are left out, so that the bytes equal those of older dumps.
    if not body["config"]["wakes"]:
        del body["config"]["wakes"]
    for name in ("happened", "is_restored", "is_rewound"):
        if not body[name]:
            del body[name]
    return body


def _label_places(
    state: IngestState, labelsets: list[tuple[str, Labels, str]], numbers: NDArray[np.int32]
) -> I64:
    """Return numbers of label sets as places in the sorted list."""
    held = np.array([state.labelsets[key].number for key in labelsets], np.int64)
    places = np.argsort(held, kind="stable")
    return places[np.searchsorted(held[places], numbers)]


def _node_codes(state: IngestState, waiting: list[str], nodes: I64) -> I64:
    """Return node ids unchanged, and names without a node as -2 and below by their place."""
    codes = {state.waiting[name].code: -2 - place for place, name in enumerate(waiting)}
    for row in np.flatnonzero(nodes < 0).tolist():
        nodes[row] = codes.get(nodes.item(row), nodes.item(row))
    return nodes


def load(body: Any, placements: int) -> IngestState:
    """Restore what `dump` returned."""
    saved = msgspec.convert(body, Saved)
    state = IngestState(placements)
    for name, value in saved.counters.items():
        setattr(state, name, value)
    state.config = saved.config
    choose_plugins(state)
    _load_nodes(state, saved)
    _load_interned(state, saved)
    _load_pods(state, saved)
    for id_, budget in saved.budgets:
        state.budgets[budget.uid] = BudgetRecord(id_, budget)
        for labels in state.labelsets.values():
            if covers(budget, labels.namespace, labels.labels):
                labels.budgets = (*labels.budgets, id_)
    state.objects = {one.uid: one for one in saved.objects}
    load_spread(state)
    state.interest = {name: frozenset(keys) for name, keys in saved.interest.items()}
    state.brackets = dict(saved.brackets)
    state.broken_off = dict.fromkeys(saved.broken_off, True)
    state.is_restored, state.is_rewound = saved.is_restored, saved.is_rewound
    state.marks = dict(saved.marks)
    state.doubts = dict.fromkeys(saved.doubts, True)
    state.unlisted = saved.unlisted
    state.effects = {asked.effect: asked for asked in saved.effects}
    state.outbox.extend(saved.outbox)
    state.events_to_publish = dict.fromkeys(saved.happened)
    return state


def _load_nodes(state: IngestState, saved: Saved) -> None:
    state.zone_shards = dict(saved.zone_shards)
    state.left_shards = dict(saved.left_shards)
    for id_, shard, node in saved.nodes:
        known = NodeRecord(id_, shard, node)
        state.nodes[node.uid] = known
        state.node_by_id[id_] = known
        state.node_names[node.name] = id_ << SHARD_BITS | shard
        state.shard_nodes[shard] += 1
        zone = node.labels.get(ZONE, "")
        state.zone_nodes[zone] = state.zone_nodes.get(zone, 0) + 1


def _load_interned(state: IngestState, saved: Saved) -> None:
    for sig, key in saved.sigs:
        spec = _decoder.decode(key)
        images = numbers_named(state, spec)
        state.sigs[key] = Signature(sig, images=images, queued=queued_as(state, spec))
        state.sig_keys[sig] = key
        add_named(state, images)
    owners = saved.owners or [""] * len(saved.labelsets)
    for (namespace, labels), owner in zip(saved.labelsets, owners, strict=True):
        add_labels(state, namespace, labels, owner)
    for name, id_, version, gang in saved.gangs:
        state.gangs[name] = GangRecord(id_, 0, version, gang)
        state.gang_keys[id_] = name


def _load_pods(state: IngestState, saved: Saved) -> None:
    uids = split(saved.uids)
    table = state.pods
    slots = table.allocate(uids)
    columns = {name: unpack(column) for name, column in saved.columns.items()}
    for name, values in columns.items():
        getattr(table, name)[slots] = values
    table.any_started = "started_s" in columns
    table.labelsets[slots] = columns["labelsets"] + 1  # numbers run from 1 in the sorted order
    state.next_waiting = OVERFLOW - 1 - len(saved.waiting)
    for place, name in enumerate(saved.waiting):
        state.waiting[name] = UnknownNode(OVERFLOW - 1 - place)
    if (columns["nodes"] == OVERFLOW).any():
        state.waiting[""] = UnknownNode(OVERFLOW)
    if saved.listed:
        state.mark = 1
        table.marks[slots] = np.frombuffer(saved.listed, np.int8)
    elif "pods" in saved.brackets:
        state.mark = 1
    _recount(state)


def _counts(column: np.ndarray) -> dict[int, int]:
    values, counts = np.unique(column, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _recount(state: IngestState) -> None:
    slots: I64 = state.pods.live()
    sigs, gangs, labelsets, nodes = (
        _counts(getattr(state.pods, name)[slots])
        for name in ("sigs", "gangs", "labelsets", "nodes")
    )
    for held in state.sigs.values():
        held.pods = sigs.get(held.sig, 0)
    for gang in state.gangs.values():
        gang.pods = gangs.get(gang.id, 0)
    for labels in state.labelsets.values():
        labels.pods = labelsets.get(labels.number, 0)
    for waiting in state.waiting.values():
        waiting.pods = nodes.get(waiting.code, 0)


def check(state: IngestState) -> None:
    """Check the table, the interned values and the indexes against each other."""
    slots = state.pods.live()
    assert len(slots) == len(state.pods), f"{len(slots)} rows, {len(state.pods)} uids"
    counted = {
        "sigs": {held.sig: held.pods for held in state.sigs.values()},
        "gangs": {known.id: known.pods for known in state.gangs.values() if known.pods},
        "labelsets": {held.number: held.pods for held in state.labelsets.values()},
    }
    for name, expected in counted.items():
        found = _counts(getattr(state.pods, name)[slots])
        found.pop(0, None)
        assert found == expected, f"{name}: table has {found}, counted {expected}"
    nodes = _counts(state.pods.nodes[slots])
    for code, pods in nodes.items():
        assert code >= 0 or pods, f"code {code}"
        assert code <= 0 or code in state.node_by_id, f"{pods} pods on unknown node {code}"
    waiting = {held.code: held.pods for held in state.waiting.values()}
    assert waiting == {code: pods for code, pods in nodes.items() if code < 0}, "waiting pods"
    assert sum(state.shard_nodes) == len(state.nodes), "nodes per shard"
    check_images(state)
    check_spread(state)
