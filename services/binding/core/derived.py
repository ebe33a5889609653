"""Binding's state as plain values and back, and the checks that are too expensive for every step.

Rows and name chunks are private encodings: a dump lists live pods by ascending id with their names
joined, so equal states give equal bytes.
"""

from itertools import groupby
from typing import Any, cast

import msgspec
import numpy as np

from services.binding.core import promises
from services.binding.core.config import Config
from services.binding.core.due_pods import Due
from services.binding.core.pod_table import FACT, NAMED, NEEDED, BindTable
from services.binding.core.state import NODE_LIVE, BindingState, Column, Eviction, PostBind, Promise
from services.binding.core.transitions import FOR_PERMIT, FOR_VOLUMES, OUT, SLOW, Evicting, Phase
from shared.events.binding import BindingEvent, ExtendersPreemptAsked
from shared.events.observed import ExtendersPreempted
from shared.events.preemption import VictimsAsked
from shared.model.columns import I64, join, pack, split, unpack
from shared.model.ids import JournalName
from shared.model.objects import PodSpec
from shared.model.volumes import Choice

COLUMNS = ("revisions", "effects", "nodes", "tries", "phases", "flags")


class SavedEviction(msgspec.Struct, array_like=True):
    """An eviction with its dicts as sorted pairs, as the canonical encoding has no dicts with
    integer keys.
    """

    victims: list[int]
    phases: list[tuple[int, Evicting]]
    due: list[tuple[int, int]]
    effects: list[tuple[int, int]]
    tries: int
    pod: int = 0


class Saved(msgspec.Struct, kw_only=True):
    """The shape of the dump. `namespaces` are (name, number of named pods in a row)."""

    config: Config
    last: int
    ids: bytes
    columns: dict[str, bytes]
    namespaces: list[tuple[str, int]]
    uids: str
    names: str
    node_names: list[tuple[int, str]]
    node_marks: bytes
    waiting: list[int]
    todo: bytes
    due: list[tuple[int, int]]
    next_effect: int
    effects: list[tuple[int, int, BindingEvent]]
    reports: dict[str, tuple[bytes, bytes]]
    evictions: list[tuple[int, SavedEviction]]
    victims: list[tuple[int, int]]
    evict_reports: list[tuple[int, str, list[int]]]
    patches: list[tuple[int, str]]
    patching: list[int]
    messages: list[tuple[int, str]]
    refreshes: list[tuple[int, str]] = []
    refresh_ms: int = 0
    lost_names: list[tuple[int, str]] = []
    written: list[tuple[str, bytes, bytes]] = []
    recent: list[tuple[int, bytes, bytes]] = []
    volumes: list[tuple[int, tuple[Choice, ...]]] = []
    hooked: list[tuple[PodSpec, bytes]] = []
    pre_bind_no: list[tuple[int, str]] = []
    pre_bind_by: list[tuple[int, tuple[str, bool]]] = []
    refused_by: list[tuple[int, str]] = []
    bind_no: list[tuple[int, str]] = []
    post_binds: list[tuple[int, PostBind]] = []
    promises: list[tuple[int, Promise]] = []
    promises_over: list[tuple[int, int]] = []
    last_promise: int = 0
    taken: list[tuple[int, str]] = []
    judge_new: list[VictimsAsked] = []
    judged: list[ExtendersPreempted] = []
    errors: list[tuple[int, str]] = []
    is_restoring: bool = False


def dump(state: BindingState) -> Any:
    """Return canonical plain values."""
    table = state.table
    rows = table.live()
    named = rows[(table.flags[rows] & NAMED) != 0]
    runs = table.runs(named)
    namespaces = groupby(runs, key=lambda run: run[0].namespace)
    queued = [_array(entry) for entry in state.queued]
    saved = Saved(
        config=state.config,
        last=table.last,
        ids=pack(table.ids[rows]),
        columns=_columns(table, rows),
        namespaces=[(name, sum(len(places) for _, places in part)) for name, part in namespaces],
        uids=join(chunk.uids_at(places) for chunk, places in runs),
        names=join(chunk.names_at(places) for chunk, places in runs),
        node_names=sorted(state.node_names.items()),
        node_marks=state.node_marks[: state.last_node + 1].tobytes(),
        waiting=sorted(state.unresolved),
        todo=pack(_queued(state, queued)),
        due=sorted(state.due.items()),
        next_effect=state.next_effect,
        effects=_effects(state),
        reports={
            end: (_joined(column.ids), _joined(column.nodes))
            for end, column in sorted(state.reports.items())
        },
        evictions=[(ask, _saved(state.evictions[ask])) for ask in sorted(state.evictions)],
        victims=sorted(state.victims.items()),
        evict_reports=[(*key, state.evict_reports[key]) for key in sorted(state.evict_reports)],
        patches=sorted(state.patches.items()),
        patching=sorted(state.patching),
        messages=sorted(state.messages.items()),
        refreshes=sorted(state.refreshes.items()),
        refresh_ms=state.refresh_ms,
        lost_names=sorted(state.lost_names.items()),
        written=_written(state),
        recent=list(state.recent),
        volumes=sorted(state.volumes.items(), key=lambda one: one[0]),
        hooked=_hooked(state),
        pre_bind_no=sorted(state.pre_bind_rejections.items()),
        pre_bind_by=sorted(state.pre_bind_rejectors.items()),
        refused_by=sorted(state.permit_rejectors.items()),
        bind_no=sorted(state.bind_errors.items()),
        post_binds=[(pod, state.post_binds[pod]) for pod in sorted(state.post_binds)],
        promises=[(pod, state.promises[pod]) for pod in sorted(state.promises)],
        promises_over=state.promises_over,
        last_promise=state.last_promise,
        taken=sorted(state.promise_conflicts.items()),
        judge_new=[state.victims_to_ask[ask] for ask in sorted(state.victims_to_ask)],
        judged=[state.victim_answers[ask] for ask in sorted(state.victim_answers)],
        errors=sorted(state.errors.items()),
        is_restoring=state.is_restoring,
    )
    return _without_new(msgspec.to_builtins(saved, builtin_types=(bytes,)))


def _without_new(body: dict[str, Any]) -> dict[str, Any]:
    """Return the dump without empty newer fields (bind plugins, promises), so that its bytes equal
    those of older snapshots.
    """
    for part, names in (
        (body, ("hooked", "pre_bind_no", "bind_no", "post_binds", "pre_bind_by", "refused_by")),
        (
            body,
            ("promises", "promises_over", "last_promise", "taken", "judge_new", "judged", "errors"),
        ),
        (body, ("is_restoring",)),
        (body["config"], ("permit", "pre_bind", "bind", "post_bind", "binder", "preempters")),
        (body["config"], ("cluster",)),
    ):
        for name in names:
            if not part[name]:
                del part[name]
    for end in ("failed", "refused"):
        if not body["reports"][end][0]:
            del body["reports"][end]
    return body


def _written(state: BindingState) -> list[tuple[str, bytes, bytes]]:
    """Return the written messages as (message, pods, times), as many pods share one message."""
    by_message: dict[str, list[tuple[int, int]]] = {}
    for pod, (message, written_ms) in sorted(state.written.items()):
        by_message.setdefault(message, []).append((pod, written_ms))
    return [
        (message, pack([pod for pod, _ in pairs]), pack([at_ms for _, at_ms in pairs]))
        for message, pairs in sorted(by_message.items())
    ]


def _hooked(state: BindingState) -> list[tuple[PodSpec, bytes]]:
    """Return specs with their pods, ordered by the first pod, as many pods share one spec."""
    by_spec: dict[PodSpec, list[int]] = {}
    for pod, spec in sorted(state.plugin_specs.items(), key=lambda one: one[0]):
        by_spec.setdefault(spec, []).append(pod)
    return [(spec, pack(pods)) for spec, pods in by_spec.items()]


def _saved(eviction: Eviction) -> SavedEviction:
    return SavedEviction(
        eviction.victims,
        sorted(eviction.phases.items()),
        sorted(eviction.due.items()),
        sorted(eviction.effects.items()),
        eviction.tries,
        eviction.pod,
    )


def _effects(state: BindingState) -> list[tuple[int, int, BindingEvent]]:
    opened = [(e, state.pods_left[e], state.effects[e]) for e in sorted(state.effects)]
    return cast(list[tuple[int, int, BindingEvent]], opened)


def _columns(table: BindTable, rows: I64) -> dict[str, bytes]:
    """Return the columns, with 0 for values that have no meaning any more."""
    phases, flags = table.phases[rows], table.flags[rows]
    is_out = np.isin(phases, OUT)
    means = {
        "effects": is_out,
        "nodes": (phases != Phase.IDLE) | ((flags & FACT) != 0),
        "revisions": (flags & NEEDED) != 0,
    }
    columns = {}
    for name in COLUMNS:
        values = getattr(table, name)[rows].astype(np.int64)
        columns[name] = pack(np.where(means[name], values, 0) if name in means else values)
    return columns


def _array(entry: "int | I64") -> I64:
    return entry if isinstance(entry, np.ndarray) else np.array([entry], np.int64)


def _joined(parts: "list[int | I64]") -> bytes:
    return b"".join(pack(_array(part)) for part in parts)


def _queued(state: BindingState, parts: list[I64]) -> I64:
    """Return the pods in `queued` that are still queued."""
    if not parts:
        return np.zeros(0, np.int64)
    table, pods = state.table, np.concatenate(parts)
    rows = table.rows(pods)
    pods, rows = pods[rows >= 0], rows[rows >= 0]
    queued: I64 = pods[table.phases[rows] == Phase.QUEUED]
    return queued


def load(body: Any, sources: tuple[JournalName, ...]) -> BindingState:
    """Restore what `dump` returned."""
    saved = msgspec.convert(body, Saved)
    state = BindingState(sources)
    state.config = saved.config
    state.table = _load_table(saved)
    phases = state.table.phases[: state.table.used]
    state.open = int(np.count_nonzero(phases != Phase.IDLE))
    marks = np.frombuffer(saved.node_marks, np.int8)
    state.last_node = max(len(marks) - 1, 0)
    state.node_marks = np.zeros(max(64, len(marks)), np.int8)
    state.node_marks[: len(marks)] = marks
    state.node_names = dict(saved.node_names)
    state.node_ids = {name: node for node, name in saved.node_names}
    state.unresolved = dict.fromkeys(saved.waiting, True)
    if saved.todo:
        state.queued.append(unpack(saved.todo))
    state.due = Due(saved.due)
    state.next_effect = saved.next_effect
    state.effects = {effect: event for effect, _left, event in saved.effects}
    state.pods_left = {effect: left for effect, left, _event in saved.effects}
    for end, (ids, nodes) in saved.reports.items():
        if ids:
            column = Column()
            column.ids.append(unpack(ids))
            column.nodes.append(unpack(nodes))
            state.reports[end] = column
            state.has_reports = True
    state.evictions = {
        ask: Eviction(e.victims, dict(e.phases), dict(e.due), dict(e.effects), e.tries, e.pod)
        for ask, e in saved.evictions
    }
    state.victims = dict(saved.victims)
    state.evict_reports = {(ask, reason): ids for ask, reason, ids in saved.evict_reports}
    state.patches = dict(saved.patches)
    state.patching = dict.fromkeys(saved.patching, True)
    state.messages = dict(saved.messages)
    state.refreshes, state.refresh_ms = dict(saved.refreshes), saved.refresh_ms
    state.lost_names = dict(saved.lost_names)
    state.volumes = dict(saved.volumes)
    state.plugin_specs = {pod: spec for spec, ids in saved.hooked for pod in unpack(ids).tolist()}
    state.pre_bind_rejections, state.post_binds = dict(saved.pre_bind_no), dict(saved.post_binds)
    state.pre_bind_rejectors, state.permit_rejectors = (
        dict(saved.pre_bind_by),
        dict(saved.refused_by),
    )
    state.bind_errors = dict(saved.bind_no)
    state.post_new = {pod: True for pod, one in state.post_binds.items() if not one.effect}
    for pod, promise in saved.promises:
        promises.add_promise(state, pod, promise)
    state.promises_over, state.last_promise = saved.promises_over, saved.last_promise
    state.promise_conflicts = dict(saved.taken)
    state.victims_to_ask = {one.ask: one for one in saved.judge_new}
    state.victim_answers = {one.ask: one for one in saved.judged}
    state.errors = dict(saved.errors)
    state.is_restoring = saved.is_restoring
    state.recent.extend(saved.recent)
    state.recent_bytes = sum(len(ids) for _at_ms, ids, _nodes in saved.recent)
    for message, pods, times in saved.written:
        for pod, written_ms in zip(unpack(pods).tolist(), unpack(times).tolist(), strict=True):
            state.written[pod] = (message, written_ms)
    _forget_others(state)
    return state


def _forget_others(state: BindingState) -> None:
    """Drop messages of pods that no longer wait, which older snapshots have."""
    wait = _may_wait(state.table)
    for column in (state.patches, state.refreshes, state.written):
        for pod in [pod for pod in column if pod not in wait]:
            del column[pod]


def _may_wait(table: BindTable) -> set[int]:
    """Return the pods that are not known to have a node."""
    rows = table.live()
    return set(table.ids[rows[(table.flags[rows] & FACT) == 0]].tolist())


def _load_table(saved: Saved) -> BindTable:
    ids = unpack(saved.ids)
    table = BindTable()
    table.adopt(ids, saved.last)
    rows = np.arange(len(ids), dtype=np.int64)
    columns = {name: unpack(column) for name, column in saved.columns.items()}
    for name, values in columns.items():
        getattr(table, name)[rows] = values
    flags = table.flags[rows].copy()
    named = np.flatnonzero(flags & NAMED)
    names, uids = split(saved.names), split(saved.uids)
    if len(names) < len(named):
        # Older snapshots kept only the names that binds needed.
        kept = iter(names)
        names = [next(kept) if flag & NEEDED else "-" for flag in flags[named].tolist()]
    start = 0
    for namespace, count in saved.namespaces:
        stop = start + count
        table.name_many(named[start:stop], namespace, uids[start:stop], names[start:stop])
        start = stop
    # Naming marked all of them as needed: unmark those that are not.
    table.unneeded(named[(flags[named] & NEEDED) == 0])
    return table


def check(state: BindingState) -> None:
    """Check the table, the effects and the queues against each other."""
    table = state.table
    rows = table.live()
    phases, pods = table.phases[rows], table.ids[rows]
    opened = int(np.count_nonzero(phases != Phase.IDLE))
    assert opened == state.open, f"{opened} open binds, counted {state.open}"
    waiting = pods[phases == Phase.UNRESOLVED].tolist()
    assert waiting == sorted(state.unresolved), "waiting binds"
    before = pods[np.isin(phases, FOR_VOLUMES)].tolist()
    earlier = pods[np.isin(phases, FOR_PERMIT)].tolist()
    assert set(before) <= set(state.volumes) <= {*before, *waiting, *earlier}, "volumes of binds"
    if state.shards > 1:
        held = {*state.promises, *state.promise_conflicts}
        assert held == set(state.volumes), "volumes that are promised to nobody"
    queued = _queued(state, [_array(entry) for entry in state.queued])
    expected = pods[phases == Phase.QUEUED].tolist()
    assert sorted(queued.tolist()) == expected, "queued binds"
    written = pods[phases == Phase.WRITTEN].tolist()
    due = sorted(set(state.due).difference(written))  # older snapshots have no second write
    assert pods[np.isin(phases, SLOW)].tolist() == due, "binds that are due"
    given_up = np.isin(phases, (Phase.FENCE, Phase.FENCING))
    assert set(state.lost_names) <= set(pods[given_up].tolist()), "names of nodes lost for nobody"
    left = dict.fromkeys(state.effects, 0)
    out = np.isin(phases, OUT)
    for effect in table.effects[rows][out].tolist():
        left[effect] += 1
    for eviction in state.evictions.values():
        for effect in eviction.effects.values():
            left[effect] += 1
    for post in state.post_binds.values():
        if post.effect:
            left[post.effect] += 1
    post = unpack(_joined(state.reports["failed"].ids)).tolist()
    assert set(state.bind_errors) <= {*state.plugin_specs, *post}, "binds that failed"
    assert not set(state.plugin_specs).difference(pods[phases != Phase.IDLE].tolist()), (
        "hooked binds"
    )
    for effect, event in state.effects.items():
        left[effect] += isinstance(event, ExtendersPreemptAsked)
    for effect in state.patching:
        left[effect] = state.pods_left[effect]
    assert left == state.pods_left, f"left {left}, counted {state.pods_left}"
    live = np.flatnonzero(state.node_marks == NODE_LIVE).tolist()
    assert live == sorted(state.node_names), "live nodes"
    messages = {*state.patches, *state.refreshes, *state.written, *state.errors}
    assert messages <= _may_wait(table), "messages of pods that do not wait"
    open_facts = (phases != Phase.IDLE) & ((table.flags[rows] & FACT) != 0)
    assert not open_facts.any(), f"open although assigned: {pods[open_facts].tolist()[:9]}"
