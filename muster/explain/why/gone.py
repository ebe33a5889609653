"""Why a pod is gone or leaves: evicted for which pod, finished or deleted."""

from typing import cast

from muster.cli.output import time_of
from muster.explain.why.answers import Answer, Eviction, Victim, decided_by
from muster.explain.why.journals import Journals
from shared.events.base import Event
from shared.events.binding import Bound, Evicted, EvictionFailed, EvictionsAsked
from shared.events.describe import View
from shared.events.ingest import PodsAssigned, PodsGone, PodsNamed
from shared.events.names import Names, Subject, column_of, holds
from shared.events.observed import PodsSeen
from shared.events.preemption import EvictAsked, GangNominateAsked, NominateAsked
from shared.model.columns import size, split
from shared.model.ids import (
    BINDING,
    INGEST,
    NO_GANG,
    NO_SIGNATURE,
    PREEMPTION,
    GangId,
    PodId,
    SignatureId,
)
from shared.replay.newest_record import Found

EVICTING = "being evicted"


async def gone_answer(journals: Journals, name: str, named: Found) -> Answer:
    """Return the answer for a pod without a row in binding's table; `named` has its PodsNamed."""
    event = cast(PodsNamed, named.event)
    short = name.partition("/")[2]
    row = max(row for row, known in enumerate(split(event.names)) if known == short)
    pod, uid = column_of(event, "ids")[row], split(event.uids)[row]
    view = View(Names(pods={pod: name}), Subject("pod", name, frozenset([pod])))
    gone = await journals.holding(INGEST, PodsGone, pod)
    if gone is None:
        return Answer(pod=name, state="just seen", decided=decided_by(named, view))
    answer = Answer(pod=name, state="deleted", end_time=time_of(gone.time_ms))
    answer.node = await _last_node(journals, pod)
    found = await _eviction(journals, pod)
    if found is not None and found[0].time is not None:
        answer.state, answer.evicted = "evicted", found[0]
        answer.decided = decided_by(found[1], await eviction_view(journals, found[1], name, pod))
    else:
        answer.decided = decided_by(gone, view)
        if answer.node and not await _was_terminating(journals, uid):
            answer.state = "finished or deleted"
    return answer


async def add_eviction(journals: Journals, answer: Answer, pod: PodId) -> None:
    """Add the eviction of a pod that preemption is evicting."""
    if pod not in (await journals.preemption()).victims:
        return
    found = await _eviction(journals, pod)
    if found is not None:
        answer.state, answer.evicted = EVICTING, found[0]
        view = await eviction_view(journals, found[1], answer.pod, pod)
        answer.decided = decided_by(found[1], view)


async def eviction_view(journals: Journals, asked: Found, name: str, pod: PodId) -> View:
    """Return the view of a victim on the record that decided its eviction."""
    event = cast(EvictAsked, asked.event)
    names = Names(pods={pod: name})
    if event.gang:
        names.gangs[event.gang] = await journals.gang_name(event.gang)
    else:
        names.pods[event.pod] = await journals.pod_name(event.pod)
        names.nodes[event.node] = await journals.node_name(event.node)
    return View(names, Subject("pod", name, frozenset([pod])))


async def _eviction(journals: Journals, pod: PodId) -> tuple[Eviction, Found] | None:
    """Return the pod's last eviction, and the record that decided it; None if the pod left by
    itself, or the eviction failed or was recalled.
    """
    asked = await journals.holding(PREEMPTION, EvictAsked, pod, "victims")
    if asked is None:
        return None
    event = cast(EvictAsked, asked.event)

    async def of_this_ask(kind: type[Event]) -> Found | None:
        def is_it(one: Event) -> bool:
            is_of_ask = isinstance(one, kind) and getattr(one, "ask", 0) == event.ask
            return is_of_ask and holds(getattr(one, "ids", b""), frozenset([pod]))

        return await journals.newest(BINDING, is_it)

    # An eviction counts as done also if the pod left before it was sent.
    if await of_this_ask(EvictionFailed) or not await of_this_ask(EvictionsAsked):
        return None
    done = await of_this_ask(Evicted)
    sig, gang, victims = await _preemptor(journals, event)
    spec = await journals.spec(sig) if sig else None
    eviction = Eviction(
        await journals.node_name(event.node) if event.node else await _last_node(journals, pod),
        await journals.pod_name(event.pod) if event.pod else "",
        victims,
        None if spec is None else spec.priority,
        await journals.gang_name(gang) if gang else "",
        None if done is None else time_of(done.time_ms),
        pod in column_of(event, "beyond"),
        event.claimed_for,
    )
    return eviction, asked


async def evictions_for(journals: Journals, pod: PodId, gang: GangId) -> tuple[Victim, ...]:
    """Return the pods that were evicted for this pod, or for its gang (0: none)."""
    types = (EvictAsked, GangNominateAsked)
    found = [one.event for one in await journals.every(PREEMPTION, types)]
    parts = [one for one in found if isinstance(one, GangNominateAsked) and gang == one.gang]
    asks = {one.ask for part in parts for one in part.nominees}
    evictions = [one for one in found if isinstance(one, EvictAsked)]
    mine = [one for one in evictions if (one.pod and one.pod == pod) or one.ask in asks]
    if not mine:
        return ()
    asks = {one.ask for one in mine}
    failed = await journals.every(BINDING, (EvictionFailed,))
    stayed = {
        victim
        for one in failed
        if cast(EvictionFailed, one.event).ask in asks
        for victim in column_of(one.event, "ids")
    }
    victims = [victim for one in mine for victim in column_of(one, "victims")]
    gone = [victim for victim in dict.fromkeys(victims) if victim not in stayed]
    beyond = {victim for one in mine for victim in column_of(one, "beyond")}
    return tuple([Victim(await journals.pod_name(victim), victim in beyond) for victim in gone])


async def _preemptor(journals: Journals, asked: EvictAsked) -> tuple[SignatureId, GangId, int]:
    """Return the preemptor's signature, its gang (0: none), and the number of victims."""
    choices = await journals.every(PREEMPTION, (NominateAsked, GangNominateAsked))
    if asked.gang:
        return NO_SIGNATURE, asked.gang, size(asked.victims)
    parts = []
    for choice in (one.event for one in choices):
        if isinstance(choice, GangNominateAsked):
            parts.append(choice)
        elif isinstance(choice, NominateAsked) and choice.ask == asked.ask:
            return choice.sig, NO_GANG, size(asked.victims)
    sigs = {one.ask: (one.sig, part) for part in parts for one in part.nominees}
    sig, own = sigs[asked.ask]
    asks = {one.ask for part in parts if part.ask == own.ask for one in part.nominees}
    evictions = [
        cast(EvictAsked, one.event) for one in await journals.every(PREEMPTION, (EvictAsked,))
    ]
    return sig, own.gang, sum(size(one.victims) for one in evictions if one.ask in asks)


async def _last_node(journals: Journals, pod: PodId) -> str:
    """Return the node on which the pod was last; empty if it never had one."""
    for journal, kind in ((INGEST, PodsAssigned), (BINDING, Bound)):
        found = await journals.holding(journal, kind, pod)
        if found is not None:
            row = column_of(found.event, "ids").index(pod)
            return await journals.node_name(column_of(found.event, "nodes")[row])
    return ""


async def _was_terminating(journals: Journals, uid: str) -> bool:
    """Return whether the pod was seen with a deletionTimestamp. A finished pod is seen without one,
    and then gone: watches leave out finished pods.
    """

    def is_it(event: Event) -> bool:
        is_terminating = isinstance(event, PodsSeen) and event.terminating
        return is_terminating and uid in split(cast(PodsSeen, event).uids)

    return await journals.newest(INGEST, is_it) is not None
