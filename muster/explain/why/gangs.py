"""Answers `muster why gang/NAME`: its members, what is missing, since when, and what comes next."""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from muster.cli.errors import UsageFault
from muster.cli.output import time_of
from muster.cli.recorded_run import Recorded
from muster.explain.why.answers import GangAnswer, Member, decided_by, utc
from muster.explain.why.gone import evictions_for
from muster.explain.why.journals import Journals
from muster.explain.why.pods import STATES
from services.binding.core.state import BindingState
from services.ingest.core.state import IngestState
from services.queueing.core.gangs.group_trees import groups_of, root_of
from services.queueing.core.gangs.members import retry_ms
from services.queueing.core.state import NOT_ASKED, Gang, QueueingState
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting.messages import gang_message
from shared.events.base import Event
from shared.events.describe import View
from shared.events.ingest import GangSet, PodsNamed
from shared.events.names import Names, Subject, is_named
from shared.events.permit import GangCommitted
from shared.events.queueing import GangDispatched, GangWaits
from shared.model.ids import INGEST, NO_NODE, NO_POD, PERMIT, QUEUEING, GangId, PodId
from shared.model.text import counted
from shared.replay.newest_record import Found


async def why_gang(run: Recorded, name: str, namespace: str = "") -> GangAnswer:
    """Answer for the gang of this name, with or without its namespace and its kind (`@composite`).
    Raises UsageFault if no record names it, and the errors of reading journals.
    """
    journals = Journals(run)
    ingest = cast(IngestState, (await journals.fold(INGEST)).state)
    inside = f"{namespace}/" if namespace else ""
    keys = sorted(key for key in ingest.gangs if is_named(key, name, inside))
    keys = keys or sorted(
        key for key in ingest.gangs if is_named(key.partition("@")[0], name, inside)
    )
    if len(keys) > 1:
        raise UsageFault(f"gang {name}: may be {', '.join(keys)}: name one")
    answer = await (_live(journals, ingest, keys[0]) if keys else _past(journals, name, inside))
    answer.read_to = journals.read_to()
    return answer


async def _past(journals: Journals, name: str, inside: str) -> GangAnswer:
    def is_it(event: Event) -> bool:
        return isinstance(event, GangSet) and is_named(event.key, name, inside)

    found = await journals.newest(INGEST, is_it)
    if found is None:
        raise UsageFault(f"gang {name}: not known: no pod group and no pod has this name")
    event = cast(GangSet, found.event)
    text = "its pod group was deleted, and no pod names it"
    decided = decided_by(found, View(Names(gangs={event.gang: event.key})))
    return GangAnswer(gang=event.key, state="deleted", message=text, decided=decided)


async def _live(journals: Journals, ingest: IngestState, key: str) -> GangAnswer:
    answer, members = await standing(journals, ingest, key)
    number = ingest.gangs[key].id
    waiting = oldest_waiting(members)
    named = await journals.holding(INGEST, PodsNamed, waiting) if waiting else None
    answer.wait_start_time = None if named is None else time_of(named.time_ms)
    answer.evictions = await evictions_for(journals, NO_POD, number)
    queue = await journals.queueing()
    tried = root_of(queue, queue.gangs[number]).gang if number in queue.gangs else number
    found = await _decision(journals, tried)
    if found is not None:
        pods = {pod: one.pod for pod, one in members.items()}
        nodes = dict((await journals.binding()).node_names)
        names = Names(pods=pods, nodes=nodes, gangs={tried: ingest.gang_keys.get(tried, key)})
        subject = Subject("gang", key, frozenset([tried]))
        answer.decided = decided_by(found, View(names, subject))
    return answer


async def standing(
    journals: Journals, ingest: IngestState, key: str
) -> tuple[GangAnswer, dict[PodId, Member]]:
    """Return where a gang stands from the states alone, and its members by number."""
    record = ingest.gangs[key]
    queue, binding = await journals.queueing(), await journals.binding()
    gang = queue.gangs.get(record.id)
    groups = [one.gang for one in groups_of(queue, gang)] if gang is not None else [record.id]
    members = await _members(journals, ingest, queue, binding, groups)
    answer = GangAnswer(gang=key, state="just seen", members=tuple(members.values()))
    answer.min_count = 0 if record.gang is None else record.gang.min_count
    placed = sum(bool(one.node) for one in answer.members)
    answer.missing = max(0, answer.min_count - placed)
    if gang is not None:
        tried = root_of(queue, gang)
        answer.state = _state(gang, tried, len(members))
        answer.message, answer.next = gang_message(tried), _next(queue, tried)
    return answer, members


def oldest_waiting(members: Mapping[PodId, Member]) -> PodId:
    """Return the number of the gang's member that waits longest; 0 if none waits."""
    waits = STATES[Pod.GANG_PENDING]
    return next((pod for pod, one in members.items() if one.state == waits), NO_POD)


async def _members(
    journals: Journals,
    ingest: IngestState,
    queue: QueueingState,
    binding: BindingState,
    groups: Sequence[GangId],
) -> dict[PodId, Member]:
    """Return the live pods of the gang's groups, by number."""
    table = ingest.pods
    is_member = np.isin(table.gangs[: table.used], np.array(groups, np.int64))
    slots = np.flatnonzero((table.ids[: table.used] != 0) & is_member)
    found = {}
    for pod, node in sorted(
        zip(table.ids[slots].tolist(), table.nodes[slots].tolist(), strict=True)
    ):
        row = binding.table.find(pod)
        node = node if node > 0 else binding.table.node_at(row) if row >= 0 else NO_NODE
        code = queue.pods.state_of(pod)
        name = await journals.node_name(node) if node else ""
        state = STATES[Pod.BOUND] if node and code not in STATES else STATES.get(code, "just seen")
        found[pod] = Member(await journals.pod_name(pod), state, name)
    return found


def _state(gang: Gang, tried: Gang, members: int) -> str:
    if gang.committed or (gang.started and not gang.waiting and not tried.attempt):
        return "committed"
    if tried.attempt:
        return "being tried"
    if gang.preempting != NOT_ASKED:
        return "waiting for preemption"
    return "waiting" if members else "without members"


def _next(queue: QueueingState, gang: Gang) -> str:
    """Return what happens next; empty for a committed gang."""
    short = gang.min_count - gang.waiting - gang.running
    at_ms = retry_ms(queue, gang)
    lane = queue.lane
    if gang.committed or (gang.started and not gang.waiting and not gang.attempt):
        return ""
    if gang.attempt:
        return "permit commits or releases all its members"
    if not gang.exists:
        return "it is tried when its pod group exists"
    if short > 0:
        return f"it is tried once it has {counted(short, 'more member')} without gates"
    if gang.tree and gang.lacking:
        return "it is tried once enough of its groups have their members"
    if gang.lacking:
        return "it is tried once each of its parts has enough members"
    if gang.preempting != NOT_ASKED:
        return "it is tried when preemption has made room for it"
    if at_ms > queue.now_ms:
        sooner = "" if gang.improved else ", or sooner if a node changes"
        return f"it is tried again at {utc(time_of(at_ms))}{sooner}"
    if lane.gang and lane.gang != gang.gang and gang.priority <= lane.priority:
        return f"it waits until gang {queue.gangs[lane.gang].key}, which failed twice, was tried"
    return "it is tried in its turn, by priority and age"


async def _decision(journals: Journals, gang: GangId) -> Found | None:
    """Return the newest record that brought the gang where it is."""

    def is_it(event: Event) -> bool:
        types = GangWaits | GangDispatched | GangCommitted
        return isinstance(event, types) and event.gang == gang

    found = [await journals.newest(journal, is_it) for journal in (QUEUEING, PERMIT)]
    return max((one for one in found if one is not None), key=_time, default=None)


def _time(found: Found) -> int:
    return found.time_ms
