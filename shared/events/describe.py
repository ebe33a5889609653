"""One short line for each event, with names instead of numbers.

An event without a line in the table is described by its name and fields. If an event has many pods,
the line is about the subject: its node, its score, its answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shared.events import binding, ingest, observed, permit, placement, preemption, queueing
from shared.events.base import Configured, Event
from shared.events.names import Names, Subject, column_of
from shared.model.api_outcome import Answer
from shared.model.columns import size, split, unpack_totals
from shared.model.ids import NodeId, PodId
from shared.model.text import counted, snake_case

NAMED_MAX = 3
OBJECTS_SET = (ingest.ObjectsSet, ingest.StorageSet, ingest.DevicesSet)
OBJECTS_GONE = (ingest.ObjectsGone, ingest.StorageGone, ingest.DevicesGone)


@dataclass(frozen=True)
class View:
    """An event seen from a subject; `subject` None: from none in particular."""

    names: Names
    subject: Subject | None = None

    def pods(self, ids: list[PodId]) -> str:
        """Return pods by name, the subject first, many as a number."""
        subjects = [self.names.pod(pod) for pod in ids if self._is_subject("pod", pod)]
        return named(subjects, [self.names.pod(pod) for pod in ids], "pod")

    def nodes(self, ids: list[NodeId]) -> str:
        """Return nodes by name, the subject first, many as a number."""
        subjects = [self.names.node(node) for node in ids if self._is_subject("node", node)]
        return named(subjects, [self.names.node(node) for node in ids], "node")

    def seen(self, names: Sequence[str], noun: str) -> str:
        """Return objects of the cluster by name, the subject first, many as a number."""
        return named([name for name in names if self._is_called(name)], names, noun)

    def placed(self, ids: list[PodId], nodes: list[NodeId]) -> str:
        """Return pods with their nodes: the subject's own, or those on the subject."""
        pairs = list(zip(ids, nodes, strict=False))
        subjects = [pair for pair in pairs if self._is_subject("pod", pair[0])]
        here = [pair for pair in pairs if self._is_subject("node", pair[1])]
        shown = subjects or here or pairs
        on = sorted({node for _pod, node in shown})
        place = self.names.node(on[0]) if len(on) == 1 else counted(len(on), "node")
        return f"{self.pods([pod for pod, _node in shown])} on {place}"

    def row(self, ids: list[PodId], nodes: list[NodeId] | None = None) -> int:
        """Return the subject's row in the columns beside `ids`, or the first row."""
        subject_rows = (row for row, pod in enumerate(ids) if self._is_subject("pod", pod))
        here = (row for row, node in enumerate(nodes or ()) if self._is_subject("node", node))
        return next(subject_rows, next(here, 0))

    def _is_called(self, name: str) -> bool:
        return self.subject is not None and self.subject.name == name

    def _is_subject(self, kind: str, number: int) -> bool:
        return self.subject is not None and self.subject.kind == kind and number in self.subject.ids


def named(subjects: Sequence[str], names: Sequence[str], noun: str) -> str:
    """Return things by name, the subjects of the story first, many as a number."""
    if subjects:
        rest = len(names) - 1
        return subjects[0] + (f" (and {rest:,} more)" if rest else "")
    if len(names) <= NAMED_MAX:
        return ", ".join(names) or f"no {noun}s"
    return counted(len(names), noun)


def _candidates(event: Any) -> str:
    return counted(len(event.candidates), "candidate")


def _because(text: str) -> str:
    """Return a reason after what it explains; an empty one is left out with its colon."""
    return f": {text}" if text else ""


def reasons(pairs: tuple[tuple[str, int], ...]) -> str:
    """Return counted reasons as kube-scheduler prints them."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in pairs)) or "no reason given"


def _ids(verb: str) -> Callable[[Any, View], str]:
    return lambda e, v: f"{v.pods(column_of(e, 'ids'))} {verb}"


def _placed(verb: str) -> Callable[[Any, View], str]:
    return lambda e, v: f"{verb} {v.placed(column_of(e, 'ids'), column_of(e, 'nodes'))}"


def _uids(noun: str, verb: str) -> Callable[[Any, View], str]:
    return lambda e, v: f"cluster: {_one_of(split(e.uids), v, noun)} {verb}"


def _one_of(uids: list[str], view: View, noun: str = "object") -> str:
    if view.subject is not None and not view.subject.uids.isdisjoint(uids):
        return named([view.subject.name], uids, noun)
    return counted(len(uids), noun)


def _lost(e: ingest.ListApplied | ingest.ListDoubted) -> str:
    return f"{counted(e.derived_deletes, 'object')} gone"


def _objects(
    e: (ingest.ObjectsSet | ingest.StorageSet | ingest.DevicesSet)
    | (ingest.ProvisioningSet | observed.ObjectsSeen),
) -> str:
    """Return objects by kind and name, many as a number."""
    if len(e.objects) > NAMED_MAX:
        return counted(len(e.objects), "object")
    pairs = (f"{one.namespace}/{one.name}".lstrip("/") for one in e.objects)
    kinds = (str(one.__struct_config__.tag) for one in e.objects)
    return ", ".join(map(" ".join, zip(kinds, pairs, strict=True)))


def _reserved(e: placement.Reserved, v: View) -> str:
    ids, nodes = column_of(e, "ids"), column_of(e, "nodes")
    totals = unpack_totals(e.totals, len(ids)).tolist()
    total = totals[v.row(ids, nodes)] if len(totals) == len(ids) else "unknown"
    best = f", next best {e.runner_up}" if e.runner_up >= 0 else ""
    where = v.placed(ids, nodes)
    feasible = f"{counted(e.feasible, 'node')} feasible"
    return f"reserved {where}: score {total}{best}, {feasible} (attempt {e.attempt})"


def _seen(e: observed.PodsSeen, v: View) -> str:
    node = " with a node" if e.nodes else ""
    return f"cluster: {_one_of(split(e.uids), v, 'pod')} seen{node}{', gated' if e.gated else ''}"


def _members(e: Any) -> str:
    return counted(sum(size(part.ids) for part in e.members), "member")


def _needed(e: Any) -> str:
    return f"{e.needed} of {_members(e)}"


def _bind_answers(e: observed.BindAnswers, v: View) -> str:
    ids = column_of(e, "ids")
    answer = Answer(e.codes[v.row(ids)]).name.lower() if len(e.codes) == len(ids) else "answers"
    if e.texts:
        return f"{v.pods(ids)} not bound: {e.texts[v.row(ids)]}"
    return f"API server: {answer} for {v.pods(ids)}"


def _dispatched(e: queueing.Dispatched, v: View) -> str:
    urgent = " urgently" if e.urgent else ""
    pods = v.pods(column_of(e, "ids"))
    return f"{pods} sent to shard {e.shard}{urgent} (attempt {e.attempt})"


def _woken(e: queueing.Woken, v: View) -> str:
    to = "to backoff" if e.until_ms else "to active"
    return f"{v.pods(column_of(e, 'ids'))} woken {to}{_because(e.reason)}"


def _refused(e: placement.Refused, v: View) -> str:
    pods = v.pods(column_of(e, "ids"))
    helps = ", preemption may help" if e.preemptible else ""
    refusal = f"0/{e.nodes} nodes, {reasons(e.reasons)}{helps}"
    if not e.attempt:
        return f"still refused: {refusal}"
    return f"{pods} refused: {refusal} (attempt {e.attempt})"


def _victims(e: Any, v: View) -> str:
    return v.pods(column_of(e, "victims"))


def _seats(e: Any, v: View) -> str:
    """Return a gang's nominees with their nodes and victims."""
    placed = v.placed([one.pod for one in e.nominees], [one.node for one in e.nominees])
    victims = [victim for one in e.nominees for victim in column_of(one, "victims")]
    return f"{placed}, victims {v.pods(victims)}"


def _queued(e: ingest.SignaturesQueued) -> str:
    """Return the first of the signatures and how many more there are."""
    gate = f", not yet: {e.gates[0]}" if e.gates[0] else ""
    more = f", and {len(e.gates) - 1} more" if len(e.gates) > 1 else ""
    first = column_of(e, "sigs")[0], column_of(e, "orders")[0]
    return f"plugins: signature {first[0]} queued by {first[1]}{gate}{more}"


Line = Callable[[Any, View], str]

WORLD: dict[type[Event], Line] = {
    ingest.SignatureDefined: lambda e, v: f"signature {e.sig} defined, priority {e.spec.priority}",
    ingest.SignaturesQueued: lambda e, _: _queued(e),
    ingest.SignatureRetired: lambda e, v: f"signature {e.sig} retired",
    ingest.PodsPending: lambda e, v: (
        f"{v.pods(column_of(e, 'ids'))} pending"
        f"{f' for {v.names.gang(e.gang)}' if e.gang else ''}{', gated' if e.gated else ''}"
    ),
    ingest.PodsRelabelled: lambda e, v: f"{v.pods(column_of(e, 'ids'))} now with labels",
    ingest.PodsNamed: _ids("known by name and revision"),
    ingest.PodsAssigned: _placed("the cluster shows"),
    ingest.PodsStarted: _ids("started"),
    ingest.PodsGone: _ids("deleted or finished"),
    ingest.NodesSet: lambda e, v: f"{v.nodes(column_of(e, 'ids'))} set in shard {e.shard}",
    ingest.ImagesCounted: lambda e, v: (
        f"{counted(size(e.images), 'image')} counted on {counted(e.nodes, 'node')}"
    ),
    ingest.NodesGone: lambda e, v: f"{v.nodes(column_of(e, 'ids'))} deleted from shard {e.shard}",
    ingest.BudgetSet: lambda e, v: (
        f"{v.names.budget(e.budget)} allows {counted(e.allowed, 'disruption')}"
    ),
    ingest.BudgetGone: lambda e, v: f"{v.names.budget(e.budget)} deleted",
    ingest.BudgetCovers: lambda e, v: (
        f"{v.names.budget(e.budget)} covers {v.pods(column_of(e, 'ids'))}"
    ),
    ingest.UnitJoined: lambda e, v: (
        f"{v.names.gang(e.gang)} leaves as a whole"
        f"{f', or all but {e.least}' if e.least else ''}: {v.pods(column_of(e, 'ids'))}"
    ),
    ingest.MinimumRunTime: lambda e, v: f"{v.pods(column_of(e, 'ids'))} run {e.run_ms / 1000:g} s",
    ingest.GangSet: lambda e, v: (
        f"gang {e.key}: minCount {e.min_count}, timeout {e.timeout_ms / 1000:g} s, "
        f"version {e.version}"
    ),
    ingest.GangGone: lambda e, v: f"{v.names.gang(e.gang)} deleted",
    **dict.fromkeys(OBJECTS_SET, lambda e, v: f"{_objects(e)} set"),
    **dict.fromkeys(OBJECTS_GONE, lambda e, v: f"{_one_of(split(e.uids), v)} deleted"),
    ingest.ProvisioningSet: lambda e, v: (
        f"{_objects(e)}: {', '.join(one.phase or 'new' for one in e.objects[:NAMED_MAX])}"
    ),
    ingest.ProvisioningGone: lambda e, v: (
        f"{counted(len(split(e.uids)), 'ProvisioningRequest')} deleted"
    ),
    ingest.QueuesSet: lambda e, v: f"a tree of {counted(len(e.queues), 'queue')}",
    ingest.NamespacesSet: lambda e, v: f"labels of {counted(len(e.labels), 'namespace')}",
    ingest.WorldListed: lambda e, v: "the world is known" if e.complete else "a world is listed",
    ingest.WorldRestored: lambda e, v: (
        "the restored cluster is known" if e.listed else "the cluster was restored from a backup"
    ),
    ingest.Happened: lambda e, v: f"in the cluster: {', '.join(e.kinds)}",
    ingest.ListApplied: lambda e, v: f"list of {e.kind} applied, {_lost(e)}",
    ingest.ListDoubted: lambda e, v: f"list of {e.kind} to be confirmed, {_lost(e)}",
    ingest.ListAsked: lambda e, v: f"list of {e.kind} asked for",
    ingest.SourceAdvanced: lambda e, v: f"consumed up to revision {e.revision}",
    observed.WorldOpened: lambda e, v: f"cluster {e.cluster}",
    observed.LeadSeen: lambda e, v: "this process leads" if e.leads else "this process stands by",
    observed.ClusterRestored: lambda e, v: f"cluster restored, now at revision {e.revision}",
    observed.PodsSeen: _seen,
    observed.PodsBoundSeen: _uids("pod", "seen with a node"),
    observed.PodsStartedSeen: _uids("pod", "started"),
    observed.PodsDeletedSeen: _uids("pod", "deleted"),
    observed.NodesSeen: lambda e, v: (
        f"cluster: {v.seen([one.name for one in e.nodes], 'node')} seen"
    ),
    observed.NodesDeletedSeen: _uids("node", "deleted"),
    observed.BudgetsSeen: lambda e, v: (
        f"cluster: {v.seen([f'{one.namespace}/{one.name}' for one in e.budgets], 'budget')} seen"
    ),
    observed.BudgetsDeletedSeen: _uids("budget", "deleted"),
    observed.GangsSeen: lambda e, v: (
        f"cluster: {v.seen([one.key for one in e.gangs], 'pod group')} seen"
    ),
    observed.GangsDeletedSeen: lambda e, v: f"cluster: {v.seen(split(e.keys), 'group')} deleted",
    observed.ObjectsSeen: lambda e, v: f"cluster: {_objects(e)} seen",
    observed.ObjectsDeletedSeen: _uids("object", "deleted"),
    observed.ListBegan: lambda e, v: f"list of {e.kind} begins at revision {e.revision}",
    observed.ListEnded: lambda e, v: f"list of {e.kind} ends with {counted(e.count, 'object')}",
    observed.WatchAdvanced: lambda e, v: f"watched up to revision {e.revision}",
    observed.InputRejected: lambda e, v: f"rejected {e.what}: {e.field} {e.rule}",
    observed.BindAnswers: _bind_answers,
    observed.PreBindAnswers: lambda e, v: (
        f"plugins before the bind: {'; '.join(filter(None, e.texts)) or 'done'} "
        f"for {v.pods(column_of(e, 'ids'))}"
    ),
    observed.PostBindAnswers: lambda e, v: f"postBind called for {v.pods(column_of(e, 'ids'))}",
    observed.GroupAnswers: lambda e, v: "conditions of PodGroups written",
    observed.RequestAnswers: lambda e, v: (
        "; ".join(filter(None, e.messages)) or "ProvisioningRequests written"
    ),
    observed.ClaimReturnAnswers: lambda e, v: f"answers to {counted(len(e.codes), 'return')}",
    observed.VolumeAnswers: lambda e, v: (
        f"API server: {Answer(e.codes[v.row(column_of(e, 'ids'))]).name.lower()} for the "
        f"volumes of {v.pods(column_of(e, 'ids'))}"
        if len(e.codes) == size(e.ids)
        else "API server: answers for volumes"
    ),
    observed.EvictAnswers: lambda e, v: f"API server: {_eviction(e, v)}",
    observed.ExtendersPreempted: lambda e, v: (
        f"extenders leave {_candidates(e)} to {v.names.pod(e.pod)}{_because(e.error)}"
    ),
    observed.ExtendersAnswered: lambda e, v: (
        f"extenders leave {_nodes(e, v)} to {v.names.pod(e.pod)}"
        f"{_because(e.error or (reasons(e.failed) if e.failed else ''))}"
    ),
    Configured: lambda e, v: "configuration in force from here on",
}


def _nodes(event: Any, view: View) -> str:
    return view.nodes(column_of(event, "nodes"))


def _shortage(e: permit.GangReleased) -> str:
    found = (
        f"room for {e.placed} of {counted(e.needed, 'member')}"
        if e.needed
        else f"0/{e.nodes} nodes"
    )
    return f"{found}, {reasons(e.reasons)}"


def _eviction(e: observed.EvictAnswers, v: View) -> str:
    ids = column_of(e, "ids")
    answer = Answer(e.codes[v.row(ids)]).name.lower() if len(e.codes) == len(ids) else "answers"
    return f"{answer} for the eviction of {v.pods(ids)}"


def _for_what(e: preemption.EvictAsked, v: View) -> str:
    if e.gang:
        return f"as {v.names.gang(e.gang)} is below its minCount"
    return f"from {v.names.node(e.node)} for {v.names.pod(e.pod)}"


def _gang_waits(e: queueing.GangWaits, v: View) -> str:
    gang = v.names.gang(e.gang)
    return f"{gang} waits: {e.message}" if e.message else f"{gang} waits no more"


def _askers(event: Any, view: View) -> str:
    return view.pods([event.pod, *column_of(event, "others")])


def _chosen(event: Any) -> str:
    return ", ".join(one.volume or f"a new volume for {one.claim}" for one in event.volumes)


QUEUE: dict[type[Event], Line] = {
    queueing.Dispatched: _dispatched,
    queueing.GangDispatched: lambda e, v: (
        f"{v.names.gang(e.gang)} sent to permit, {_members(e)}, minCount {e.min_count}"
        f"{', and nothing passes it' if e.lane else ''} (attempt {e.attempt})"
    ),
    queueing.PreemptAsked: lambda e, v: f"preemption asked for {_askers(e, v)}",
    queueing.GangPreemptAsked: lambda e, v: (
        f"preemption asked for {_needed(e)} of {v.names.gang(e.gang)}"
    ),
    queueing.GangPreemptRecalled: lambda e, v: (
        f"preemption for {v.names.gang(e.gang)} recalled: its group changed"
    ),
    queueing.ReasonsAsked: lambda e, v: "shards asked for their present reasons",
    queueing.Confirmed: lambda e, v: (
        f"{v.pods(column_of(e, 'ids'))} still waits{_because(e.message)}"
    ),
    queueing.Parked: lambda e, v: f"{v.pods(column_of(e, 'ids'))} parked{_because(e.message)}",
    queueing.TryFailed: lambda e, v: (
        f"{v.pods(column_of(e, 'ids'))} in backoff{_because(e.message)}"
    ),
    queueing.QuotaReached: lambda e, v: (
        f"{v.names.gang(e.gang) if e.gang else v.pods(column_of(e, 'ids'))} waits"
        f"{_because(e.message)}"
    ),
    queueing.Woken: _woken,
    queueing.Activated: _ids("active, backoff is over"),
    queueing.Settled: lambda e, v: f"attempt {e.attempt} settled",
    queueing.GangWaits: _gang_waits,
    queueing.GangFailed: lambda e, v: f"{v.names.gang(e.gang)} in backoff{_because(e.message)}",
    queueing.GangShown: lambda e, v: (
        f"PodGroup {e.key} is to say {e.message or 'that it was scheduled'}"
    ),
    queueing.GangGrows: lambda e, v: (
        f"{v.names.gang(e.gang)} grows: no gang of its priority lacks its minCount"
    ),
    queueing.GangShrunk: lambda e, v: (
        f"{v.names.gang(e.gang)} goes on with {counted(e.running, 'member')}: its grace is over"
    ),
    queueing.GangEvictAsked: lambda e, v: (
        f"{v.names.gang(e.gang)} is below its minCount after its grace: "
        f"{v.pods(column_of(e, 'ids'))} to be evicted"
    ),
    queueing.ProvisioningAsked: lambda e, v: (
        f"nodes for {counted(sum(e.request.counts), 'member')} of {v.names.gang(e.gang)} asked "
        f"from the autoscaler ({e.request.class_name})"
    ),
    queueing.ProvisioningWithdrawn: lambda e, v: (
        f"ProvisioningRequest {e.request.name} for {e.request.key} withdrawn"
    ),
    queueing.LaneTaken: lambda e, v: (
        f"{v.names.gang(e.gang)} goes first: nothing of its priority passes it"
    ),
    queueing.LaneFreed: lambda e, v: f"{v.names.gang(e.gang)} does not go first any more",
}

SHARD: dict[type[Event], Line] = {
    placement.Reserved: _reserved,
    placement.ExtendersAsked: lambda e, v: (
        f"extenders asked about {_nodes(e, v)} for {v.names.pod(e.pod)}"
    ),
    placement.VolumesChosen: lambda e, v: (
        f"{v.pods(column_of(e, 'ids'))} gets {_chosen(e)} before it is bound"
    ),
    placement.VolumesBound: _placed("all claims bound of"),
    placement.VolumesFailed: lambda e, v: (
        f"volumes of {v.names.pod(e.pod)} not bound for {v.names.node(e.node)}{_because(e.reason)}"
    ),
    placement.Refused: _refused,
    placement.Improved: lambda e, v: f"shard {e.shard}: pods that it refused may fit now",
    placement.ShardDigest: lambda e, v: (
        f"shard {e.shard}: {counted(e.nodes, 'node')}, "
        f"free cpu {e.free_cpu_milli}m, gpu {e.free_gpu_milli}m"
    ),
    placement.GangOffered: lambda e, v: (
        f"shard {e.shard} offers {v.names.gang(e.gang)} room for "
        f"{counted(sum(e.counts), 'member')}"
        f"{f', {reasons(e.reasons)}' if e.reasons else ''}"
        f"{', preemption may help' if e.preemptible else ''} (attempt {e.attempt})"
    ),
    placement.GangHeld: lambda e, v: (
        f"{v.names.gang(e.gang)}: shard {e.shard} holds "
        f"{v.placed(column_of(e, 'ids'), column_of(e, 'nodes'))} (attempt {e.attempt})"
    ),
    placement.GangRefused: lambda e, v: (
        f"{v.names.gang(e.gang)}: shard {e.shard} holds nothing, {reasons(e.reasons)}"
    ),
    placement.CandidatesFound: lambda e, v: (
        f"shard {e.shard}: {counted(len(e.candidates or e.series), 'candidate')} for "
        f"{v.names.pod(e.pod)}"
        f"{' and others' if e.series else ''}"
    ),
    placement.Nominated: lambda e, v: (
        f"{v.names.pod(e.pod)} nominated to {v.names.node(e.node)}, victims {_victims(e, v)}"
    ),
    placement.NominationStale: lambda e, v: f"nomination of {v.names.pod(e.pod)} is stale",
    placement.PlacesFound: lambda e, v: (
        f"shard {e.shard}: {counted(len(e.places), 'place')} for {v.names.gang(e.gang)}, "
        f"{counted(sum(size(one.candidate.victims) for one in e.places), 'victim')}"
    ),
    placement.GangNominated: lambda e, v: (
        f"{v.names.gang(e.gang)}: shard {e.shard} keeps {_seats(e, v)}"
    ),
    placement.GangNominationStale: lambda e, v: (
        f"{v.names.gang(e.gang)}: shard {e.shard} has given up these places"
    ),
    placement.PlaceKept: lambda e, v: (
        f"{v.names.gang(e.gang)} keeps the place of {v.names.pod(e.pod)} on {v.names.node(e.node)}"
    ),
    placement.NominationReady: lambda e, v: (
        f"the last victim left {v.names.node(e.node)}: {v.names.pod(e.pod)} is tried there"
    ),
    placement.NominationLost: lambda e, v: (
        f"nomination of {v.names.pod(e.pod)} lost{_because(e.reason)}"
    ),
    placement.Released: _ids("given back"),
}

GANGS: dict[type[Event], Line] = {
    permit.OfferAsked: lambda e, v: (
        f"{v.names.gang(e.gang)}: shards are asked for room for {_members(e)} (attempt {e.attempt})"
    ),
    permit.HoldAsked: lambda e, v: (
        f"{v.names.gang(e.gang)}: shard {e.shard} is to hold {_members(e)}"
    ),
    permit.GangCommitted: lambda e, v: (
        f"{v.names.gang(e.gang)} committed over {counted(e.shards, 'shard')}: "
        f"{v.placed(column_of(e, 'ids'), column_of(e, 'nodes'))}"
    ),
    permit.GangReleased: lambda e, v: (
        f"{v.names.gang(e.gang)} released: {'the gang changed' if e.stale else _shortage(e)}"
    ),
    permit.GangTimedOut: lambda e, v: (
        f"{v.names.gang(e.gang)} timed out, all its holds are released"
    ),
}

PREEMPTIONS: dict[type[Event], Line] = {
    preemption.DryRunAsked: lambda e, v: f"looking for victims for {_askers(e, v)}",
    preemption.VictimsAsked: lambda e, v: (
        f"extenders are to choose victims for {v.names.pod(e.pod)} from {_candidates(e)}"
    ),
    preemption.NominateAsked: lambda e, v: (
        f"{v.names.node(e.node)} chosen for {v.names.pod(e.pod)}, victims {_victims(e, v)}"
    ),
    preemption.GangDryRunAsked: lambda e, v: (
        f"looking for victims for {_needed(e)} of {v.names.gang(e.gang)}"
    ),
    preemption.GangNominateAsked: lambda e, v: (
        f"{v.names.gang(e.gang)}: shard {e.shard} is to keep {_seats(e, v)}"
    ),
    preemption.GangRoomMade: lambda e, v: (
        f"the last victim left: {v.names.gang(e.gang)} is tried in its places"
    ),
    preemption.GangPreemptionClosed: lambda e, v: (
        f"preemption for {v.names.gang(e.gang)} is over{_because(e.message)}"
    ),
    preemption.NominationCleared: lambda e, v: f"nomination of {v.names.pod(e.pod)} withdrawn",
    preemption.EvictAsked: lambda e, v: (
        f"{_victims(e, v)} to be evicted {_for_what(e, v)}"
        f"{f', {size(e.beyond)} beyond a budget' if e.beyond else ''}"
    ),
    preemption.EvictRecalled: lambda e, v: "unsent evictions recalled",
    preemption.PreemptionOpened: lambda e, v: (
        f"{v.names.pod(e.pod)} waits for {_victims(e, v)} to leave {v.names.node(e.node)}"
    ),
    preemption.PreemptionClosed: lambda e, v: (
        f"preemption for {v.names.pod(e.pod)} is over{_because(e.message)}"
    ),
}

BINDS: dict[type[Event], Line] = {
    binding.BindsAsked: lambda e, v: f"bind {v.placed(column_of(e, 'ids'), column_of(e, 'nodes'))}",
    binding.ReadsAsked: lambda e, v: f"read {v.pods(column_of(e, 'ids'))}",
    binding.FencesAsked: lambda e, v: f"patch the status of {v.pods(column_of(e, 'ids'))}",
    binding.VolumesAsked: lambda e, v: (
        f"bind the volumes and claims of {v.pods(column_of(e, 'ids'))}"
    ),
    binding.ClaimReturnsAsked: lambda e, v: (
        f"give back claims: {counted(len(e.numbers) // 8, 'bind')}"
    ),
    binding.ClaimsReturned: lambda e, v: f"outcome for the claims of {v.names.pod(e.pod)} known",
    binding.VolumesGranted: lambda e, v: (
        f"{v.names.pod(e.pod)} on {e.node} of shard {e.shard} may have {_chosen(e)}"
    ),
    binding.VolumesTaken: lambda e, v: (
        f"volumes of {v.names.pod(e.pod)} on {v.names.node(e.node)} refused{_because(e.reason)}"
    ),
    binding.VolumesOver: lambda e, v: (
        f"volume promises ended: {', '.join(map(str, column_of(e, 'numbers')))}"
    ),
    binding.PermitsAsked: lambda e, v: f"ask permit plugins about {v.pods(column_of(e, 'ids'))}",
    binding.ExtendersPreemptAsked: lambda e, v: (
        f"extenders asked to choose victims for {v.names.pod(e.pod)} from {_candidates(e)}"
    ),
    binding.VictimsJudged: lambda e, v: (
        f"extenders leave {_candidates(e)} to {v.names.pod(e.pod)}{_because(e.error)}"
    ),
    binding.PreBindsAsked: lambda e, v: f"run preBind plugins for {v.pods(column_of(e, 'ids'))}",
    binding.PreBindFailed: lambda e, v: (
        f"{v.names.pod(e.pod)} not bound to {v.names.node(e.node)}{_because(e.reason)}"
    ),
    binding.PostBindsAsked: lambda e, v: f"call postBind plugins for {v.pods(column_of(e, 'ids'))}",
    binding.GroupsAsked: lambda e, v: f"patch the status of PodGroups {', '.join(e.keys)}",
    binding.RequestsAsked: lambda e, v: (
        f"write ProvisioningRequests {', '.join(one.name for one in e.requests)}"
    ),
    binding.ProvisioningRefused: lambda e, v: (
        f"no ProvisioningRequest for {', '.join(e.keys)}: {'; '.join(e.messages)}"
    ),
    binding.EvictionsAsked: lambda e, v: f"evict {v.pods(column_of(e, 'ids'))}",
    binding.Bound: _placed("bound"),
    binding.BindFailed: lambda e, v: (
        f"{v.pods(column_of(e, 'ids'))} not bound: "
        f"{e.texts[v.row(column_of(e, 'ids'))] if e.texts else e.reason}"
    ),
    binding.Evicted: _ids("evicted"),
    binding.EvictionFailed: lambda e, v: (
        f"{v.pods(column_of(e, 'ids'))} not evicted{_because(e.reason)}"
    ),
}

TABLE: dict[type[Event], Line] = {**WORLD, **QUEUE, **SHARD, **GANGS, **PREEMPTIONS, **BINDS}


def describe(event: Event, view: View) -> str:
    """Return the event in one line."""
    return TABLE.get(type(event), _by_fields)(event, view)


def _by_fields(event: Event, view: View) -> str:
    """Return the name of an event and those of its fields that are set and say something."""
    name = snake_case(type(event).__name__).replace("_", " ")
    found = ((one, getattr(event, one)) for one in event.__struct_fields__)
    parts = [_field(one, value, event, view) for one, value in found if value]
    return f"{name}: {', '.join(filter(None, parts))}"


def _field(name: str, value: object, event: Event, view: View) -> str:
    match name, value:
        case "ids", _:
            return view.pods(column_of(event, "ids"))
        case "sig", _:
            return f"signature {value}"
        case "pod" | "node" | "gang" as kind, int(number):
            names = view.names
            called: dict[str, Callable[[Any], str]] = {
                "pod": names.pod,
                "node": names.node,
                "gang": names.gang,
            }
            return called[kind](number)
        case _, True:
            return name
        case _, int() | str():
            return f"{name} {value}"
    return ""
