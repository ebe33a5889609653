"""A simulated cluster: it plays a world and takes binds and evictions as a Kubernetes API does.

It keeps the rules on which correctness depends: a pod is bound at most once, uid and
resourceVersion preconditions hold, and capacity and nodes are never checked. Its only clock is the
running loop's and its only chance is its seed, so a run on a virtual-time loop repeats exactly. It
schedules nothing.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from shared.events.base import Event
from shared.events.observed import (
    BudgetsSeen,
    GangsSeen,
    NodesDeletedSeen,
    NodesSeen,
    ObjectsDeletedSeen,
    ObjectsSeen,
    PodsBoundSeen,
    PodsDeletedSeen,
    PodsSeen,
)
from shared.model.api_outcome import Answer
from shared.model.cluster_objects import ClaimObject, ClusterObject, ProvisioningRequest
from shared.model.columns import join, pack, split
from shared.model.objects import Budget, Gang, Node, PodSpec
from shared.model.world import Arrival, World
from shared.ports.cluster import (
    ALL_KINDS,
    KINDS,
    NO_MARKS,
    OBJECTS,
    BindRequest,
    ClaimsAnswer,
    ClaimsRequest,
    GroupCondition,
    Marks,
    NodesRequest,
    PastBind,
    PodRead,
    PodRef,
    VolumeRequest,
    Watched,
)
from shared.simulated.agenda import Agenda
from shared.simulated.claims import SimClaims
from shared.simulated.config import SimConfig
from shared.simulated.history import Happened, Kind
from shared.simulated.pod import SimPod
from shared.simulated.start_times import Starts
from shared.simulated.volumes import SimVolumes
from shared.simulated.watch_log import WatchLog

UNASSIGNED = "-"
Request = TypeVar("Request")
Result = TypeVar("Result")
DONE = Answer.DONE  # Python 3.11 looks up members of an enum slowly
GONE, BUSY, UNKNOWN = PodRead(Answer.GONE), PodRead(Answer.BUSY), PodRead(Answer.UNKNOWN)
STALE, ASSIGNED, REFUSED = map(PodRead, (Answer.STALE, Answer.ASSIGNED, Answer.REFUSED))


class SimCluster:
    """Implements the port `Cluster` in memory; `start` begins to play the world."""

    def __init__(self, world: World, config: SimConfig | None = None) -> None:
        """Nodes, budgets and gangs exist from revision 1 on; pods arrive after `start`."""
        self.config = config or SimConfig()
        self.world = world
        self.kinds = ALL_KINDS if world.objects else KINDS
        self.revision = 0
        self.history: list[Happened] = []
        self.pods: dict[str, SimPod] = {}
        self.nodes: dict[str, Node] = {}
        self.budgets: dict[str, Budget] = {}
        self.gangs: dict[str, Gang] = {}
        self.group_conditions: dict[tuple[str, str], str] = {}
        self._requests = 0  # to the cluster autoscaler
        self.objects = {one.uid: one for one in world.objects}
        self._volumes = SimVolumes(self.objects, self.set_object, self._settle_later)
        self._claims = SimClaims(self.objects, self.set_object, self.remove_object)
        self._has_claims = any(isinstance(one, ClaimObject) for one in world.objects)
        # Revision and uid of each change of a resource claim; None: it was deleted.
        self.claim_changes: list[tuple[int, str, ClaimObject | None]] = []
        self._batches: list[Arrival] = []
        self._random = random.Random(self.config.seed)
        self._created, self._starts = 0, Starts()
        self._any_ends = False  # whether any created pod ends by itself
        self._is_ending = True  # whether pods finish when their lifetimes are over
        self._agenda = Agenda(self._pump)
        speed = self.config.speed
        for arrival in world.arrivals:
            due_s = arrival.at_ms / 1000 / speed if speed else 0.0
            self._agenda.add(due_s, "arrival", arrival)
        self._log = WatchLog(
            self.config.keep_deliveries, self.config.watch_latency_ms, self._watch_breaks
        )
        for node in world.nodes:
            self.set_node(node)
        self.set_gangs(world.gangs)
        for budget in world.budgets:
            self._set_budget(budget)

    # ------------------------------------------------------------------------------ time

    def start(self) -> None:
        """Begin to play arrivals and lifetimes on the running loop."""
        self._agenda.start()
        self._volumes.start()
        self._pump()

    def stop(self) -> None:
        """Stop playing; requests are still answered."""
        self._agenda.stop()

    def keep_pods(self) -> None:
        """From now on no pod finishes: the world has come to its end."""
        self._is_ending = False

    def next_s(self) -> float | None:
        """Return the seconds until something happens by itself; None if nothing does."""
        return self._agenda.next_s()

    @property
    def arrived(self) -> bool:
        """Return whether every arrival of the world was created."""
        return self._created == len(self.world.arrivals)

    def now_ms(self) -> int:
        """Return the milliseconds since `start`."""
        return int(self._agenda.now_s() * 1000 + 1e-6)

    def _after(self, delay_ms: float, what: str, argument: Any) -> None:
        self._agenda.add(self._agenda.now_s() + delay_ms / 1000, what, argument)

    def _pump(self) -> None:
        """Carry out everything that is due, in order; deletions together."""
        deleted: list[str] = []
        finished: list[str] = []
        for what, argument in self._agenda.pop_due():
            if what == "arrival":
                self._created += 1
                self.create(argument)
            elif what == "delete":
                deleted.append(argument)
            elif what == "finish":
                finished += [argument] * self._is_ending
            elif what == "late":
                self._bind_all([argument], "late-bind")
            elif what == "volumes":
                self._volumes.write(argument)
            elif what == "claims":
                self._claims.write(argument)
            elif what == "pods-gone":
                self._claims.pods_gone(argument)
            elif what == "claim":
                self._volumes.settle(argument, self._random, self.config.volume_failure)
            elif self.nodes:
                names = sorted(node.name for node in self.nodes.values())
                self.foreign_bind(argument, self._random.choice(names))
        self.delete(deleted)
        self.delete(finished, "finished")

    # ------------------------------------------------------------------- changes

    def _happens(self, kind: Kind, uid: str, node: str = "", detail: str = "") -> int:
        self.revision += 1
        time_ms = self.now_ms()
        self.history.append(Happened(self.revision, time_ms, kind, uid, node, detail))
        return self.revision

    def _publish(self, *events: Event) -> None:
        self._log.add(self.revision, events, self._agenda.loop_s())

    def create(self, arrival: Arrival) -> None:
        """Create the pods of one arrival now."""
        batch, pods = len(self._batches), arrival.pods
        self._any_ends = self._any_ends or bool(arrival.lifetime_ms)
        self._batches.append(arrival)
        uids, names = split(pods.uids), split(pods.names)
        nodes = split(pods.nodes) if pods.nodes else None
        time_ms, revision = self.now_ms(), self.revision
        for place, uid in enumerate(uids):
            assert uid not in self.pods, f"pod {names[place]}: uid {uid} exists"
            revision += 1
            pod = SimPod(uid, names[place], batch, revision, pods.gated)
            if nodes is not None and nodes[place] != UNASSIGNED:
                pod.node = nodes[place]
            self.pods[uid] = pod
            self.history.append(Happened(revision, time_ms, "create", uid, pod.node, pods.gang))
        created = self._starts.created(arrival, pack(range(self.revision + 1, revision + 1)))
        self.revision = revision
        self._publish(*created)
        if self.config.foreign:
            for uid in uids:
                if self._random.random() < self.config.foreign:
                    delay_ms = self._random.random() * self.config.foreign_ms
                    self._after(delay_ms, "foreign", uid)

    def delete(self, uids: Iterable[str], why: str = "deleted") -> None:
        """Delete pods at once; they `finished` or `failed` by themselves, or were deleted."""
        gone: dict[bool, list[str]] = {}  # lost -> pods
        for uid in uids:
            pod = self.pods.pop(uid, None)
            if pod is not None:
                gone.setdefault(why != "finished" and not pod.deleting, []).append(uid)
                self._happens("delete", uid, pod.node, why)
        for lost, those in gone.items():
            self._publish(PodsDeletedSeen(join(those), why in ("finished", "failed"), lost))
            if self._has_claims:
                self._after(self.config.volume_ms, "pods-gone", those)

    def ungate(self, uids: Iterable[str]) -> None:
        """Lift the pods' scheduling gates."""
        found = [self.pods[uid] for uid in uids if uid in self.pods]
        for pod in found:
            pod.gated = False
            pod.revision = self._happens("touch", pod.uid, detail="ungated")
        self._publish(*self._columns(found))

    def change(self, uid: str, spec: PodSpec) -> None:
        """Change a pod's spec, because its labels or annotations changed."""
        pod = self.pods[uid]
        batch = self._batches[pod.batch]
        changed = msgspec.structs.replace(batch.pods, spec=spec)
        self._batches.append(msgspec.structs.replace(batch, pods=changed))
        pod.batch = len(self._batches) - 1
        pod.revision = self._happens("touch", uid, detail="changed")
        self._publish(*self._columns([pod]))

    def foreign_bind(self, uid: str, node: str) -> bool:
        """Bind a pod as another client, without preconditions. Return whether it was unbound."""
        pod = self.pods.get(uid)
        if pod is None or pod.node or pod.deleting or pod.gated:
            return False
        request = BindRequest(uid, "", pod.name, node, pod.revision)
        self._bind_all([request], "foreign-bind")
        return True

    def set_node(self, node: Node) -> None:
        """Add or change a node."""
        self.nodes[node.uid] = node
        self._happens("node", node.uid, node.name)
        self._publish(NodesSeen((node,)))

    def remove_node(self, uid: str) -> None:
        """Delete a node at once, and its pods a little later."""
        node = self.nodes.pop(uid)
        self._happens("node-gone", uid, node.name)
        self._publish(NodesDeletedSeen(uid))
        for pod in self.pods.values():
            if pod.node == node.name:
                self._after(self.config.pod_gc_ms, "delete", pod.uid)

    def remake_node(self, uid: str, new_uid: str) -> None:
        """Delete a node and create it again under its name before its pods are collected."""
        node = self.nodes.pop(uid)
        self._happens("node-gone", uid, node.name)
        self._publish(NodesDeletedSeen(uid))
        self.set_node(msgspec.structs.replace(node, uid=new_uid))

    def set_gangs(self, gangs: Sequence[Gang]) -> None:
        """Add or change pod groups."""
        for gang in gangs:
            self.gangs[gang.key] = gang
            self._happens("gang", gang.key)
        if gangs:
            self._publish(GangsSeen(tuple(gangs)))

    def set_object(self, one: ClusterObject) -> None:
        """Add or change one of the other objects; the world must have some."""
        self.objects[one.uid] = one
        self._happens("object", one.uid, detail=one.name)
        self._publish(ObjectsSeen((one,)))
        if isinstance(one, ClaimObject):
            self._has_claims = True
            self.claim_changes.append((self.revision, one.uid, one))
        self._volumes.changed(one)

    def remove_object(self, uid: str) -> None:
        """Delete one of the other objects at once."""
        one = self.objects.pop(uid)
        self._happens("object-gone", uid, detail=one.name)
        self._publish(ObjectsDeletedSeen(uid))
        if isinstance(one, ClaimObject):
            self.claim_changes.append((self.revision, uid, None))

    def _set_budget(self, budget: Budget) -> None:
        self.budgets[budget.uid] = budget
        self._happens("budget", budget.uid, detail=f"{budget.name} allows {budget.allowed}")
        self._publish(BudgetsSeen((budget,)))

    def forget_history(self) -> None:
        """Compact the history: every watch that is behind gets Gone."""
        self._log.forget()

    def break_watches(self) -> None:
        """End every open watch with a connection error."""
        self._log.break_all()

    def restored(self) -> None:
        """Put the watch log back to the restored revision (shared/simulated/backup.py)."""
        self._log.restore(self.revision)

    def _watch_breaks(self) -> bool:
        rate = self.config.watch_break
        return bool(rate) and self._random.random() < rate

    # ----------------------------------------------------------------------------- the port

    async def identity(self) -> str:
        """Return the world's name unless configured."""
        await self._travel()
        return self.config.identity or f"simulated-{self.world.name}"

    async def newest_revision(self) -> int:
        """See the port."""
        await self._travel()
        return self.revision

    async def list_all(self, kind: str) -> Watched:
        """Return all objects of one kind at the current revision."""
        await self._travel()
        events: list[Event] = []
        if kind == "nodes" and self.nodes:
            events.append(NodesSeen(tuple(self.nodes.values())))
        elif kind == "budgets" and self.budgets:
            events.append(BudgetsSeen(tuple(self.budgets.values())))
        elif kind == "gangs" and self.gangs:
            events.append(GangsSeen(tuple(self.gangs.values())))
        elif kind == OBJECTS and self.objects:
            events.append(ObjectsSeen(tuple(self.objects.values())))
        elif kind == "pods":
            events += [*self._columns(self.pods.values()), *self._starts.of(self.pods)]
        return Watched(self.revision, tuple(events))

    def watch(self, since: int, marks: Marks = NO_MARKS) -> AsyncIterator[Watched]:
        """See the port; one log has no marks."""
        return self._log.watch(since, self.revision)

    async def bind(self, requests: Sequence[BindRequest]) -> list[PodRead]:
        """Carry out bindings in order."""
        await self._travel()
        if not self.config.fails():
            answers = self._bind_all(requests, "bind")
        else:
            answers = [self._bind_or_fail(request) for request in requests]
        await self._travel()
        return answers

    async def bind_volumes(self, requests: Sequence[VolumeRequest]) -> list[Answer]:
        """See the port."""
        await self._travel()
        answers = [
            self._write_or_fail("volumes", self._volumes.write, request, Answer)
            for request in requests
        ]
        await self._travel()
        return answers

    async def write_claims(self, requests: Sequence[ClaimsRequest]) -> list[ClaimsAnswer]:
        """See the port."""
        await self._travel()
        answers = [
            self._write_or_fail("claims", self._claims.write, request, ClaimsAnswer)
            for request in requests
        ]
        await self._travel()
        return answers

    async def read(self, pods: Sequence[PodRef]) -> list[PodRead]:
        """Read pods."""
        await self._travel()
        return [self._shown(ref.uid) for ref in pods]

    async def touch(
        self, pods: Sequence[PodRef], messages: Sequence[str], reasons: Sequence[str] = ()
    ) -> list[PodRead]:
        """Patch the status, which raises the revision of assigned pods, too; `reasons` are not
        kept.
        """
        assert len(pods) == len(messages), f"{len(pods)} pods, {len(messages)} messages"
        uids = [ref.uid for ref in pods]
        await self._travel()
        touched = []
        for uid, message in zip(uids, messages, strict=True):
            pod = self.pods.get(uid)
            if pod is not None:
                pod.revision = self._happens("touch", uid, pod.node, message)
                touched.append(pod)
        if touched:
            self._publish(*self._columns(touched))
        answers = [self._shown(uid) for uid in uids]
        lost = self.config.lost_response
        if lost:
            answers = [UNKNOWN if self._random.random() < lost else read for read in answers]
        await self._travel()
        return answers

    async def evict(self, pods: Sequence[PodRef], by: PodRef | None = None) -> list[Answer]:
        """Evict pods; each is deleted after its grace period."""
        await self._travel()
        answers = [self._evict_one(ref.uid) for ref in pods]
        await self._travel()
        return answers

    async def show_groups(self, groups: Sequence[GroupCondition]) -> None:
        """Keep what PodGroups say. Raises AssertionError if one that was scheduled no longer says
        so.
        """
        for one in groups:
            key = one.namespace, one.name
            assert self.group_conditions.get(key) != "" or not one.message, f"{key}: {one.message}"
            self.group_conditions[key] = one.message

    async def request_nodes(self, requests: Sequence[NodesRequest]) -> list[str]:
        """Keep requests as objects, about which somebody else decides."""
        for one in requests:
            named = one.namespace, one.name
            known = [x for x in self.objects.values() if (x.namespace, x.name) == named]
            if one.uid in self.objects:
                self.remove_object(one.uid)
            elif not one.uid and not any(isinstance(x, ProvisioningRequest) for x in known):
                self._requests += 1
                request = ProvisioningRequest(
                    uid=f"request-{self._requests}",
                    name=one.name,
                    namespace=one.namespace,
                    gang=one.key,
                    class_name=one.class_name,
                )
                self.set_object(request)
        return [""] * len(requests)

    def announce_binds(self, binds: Sequence[PastBind], are_new: bool = False) -> None:
        """Do nothing: there are no Events here."""

    async def _travel(self) -> None:
        if self.config.latency_ms:
            await asyncio.sleep(self.config.latency_ms / 2000)

    # ------------------------------------------------------------------------------- binding

    def _bind_all(self, requests: Sequence[BindRequest], kind: Kind) -> list[PodRead]:
        """Commit the binds whose preconditions hold, in order; one watch event for all."""
        pods, history, batches = self.pods, self.history, self._batches
        time_ms, revision = self.now_ms(), self.revision
        bound: list[SimPod] = []
        answers: list[PodRead] = []
        for request in requests:
            pod = pods.get(request.uid)
            if pod is None:
                answers.append(GONE)
            elif pod.revision != request.revision:
                answers.append(STALE)
            elif pod.deleting or pod.gated:
                answers.append(REFUSED)
            elif pod.node:
                answers.append(ASSIGNED)
            else:
                revision += 1
                pod.node, pod.revision = request.node, revision
                bound.append(pod)
                answers.append(PodRead(DONE, "", revision))
                history.append(Happened(revision, time_ms, kind, pod.uid, pod.node))
        if bound:
            self.revision = revision
            first = revision - len(bound) + 1
            uids = join([pod.uid for pod in bound])
            nodes = join([pod.node for pod in bound])
            self._publish(PodsBoundSeen(uids, nodes, pack(range(first, revision + 1))))
            scale = self.config.speed or 1.0
            for pod in bound if self._any_ends else ():
                lifetime_ms = batches[pod.batch].lifetime_ms
                if lifetime_ms:
                    self._after(lifetime_ms / scale, "finish", pod.uid)
        return answers

    def _bind_or_fail(self, request: BindRequest) -> PodRead:
        fate = self._fate()
        if fate == "busy":
            return BUSY
        if fate == "refused":
            return REFUSED
        if fate == "late":
            self._after(self._random.random() * self.config.late_ms, "late", request)
        elif fate != "lost_request":
            read = self._bind_all([request], "bind")[0]
            return read if fate == "fine" else UNKNOWN
        return UNKNOWN

    def _write_or_fail(
        self,
        what: str,
        write: Callable[[Request], Result],
        request: Request,
        failed: Callable[[Answer], Result],
    ) -> Result:
        fate = self._fate() if self.config.fails() else "fine"
        failure = self.config.volume_failure
        if what == "claims" and failure and self._random.random() < failure:
            fate = self._random.choice(("refused", "late", "lost_response"))
        if fate in ("busy", "refused"):
            return failed(Answer[fate.upper()])
        if fate == "late":
            self._after(self._random.random() * self.config.late_ms, what, request)
        elif fate != "lost_request":
            answer = write(request)
            return answer if fate == "fine" else failed(Answer.UNKNOWN)
        return failed(Answer.UNKNOWN)

    def _settle_later(self, uid: str) -> None:
        self._after(self.config.volume_ms, "claim", uid)

    def _fate(self) -> str:
        """Draw the fate of one request."""
        roll = self._random.random()
        for name in ("busy", "refused", "lost_request", "late", "lost_response"):
            rate: float = getattr(self.config, name)
            if roll < rate:
                return name
            roll -= rate
        return "fine"

    def _evict_one(self, uid: str) -> Answer:
        config, pod = self.config, self.pods.get(uid)
        if pod is None:
            return Answer.GONE
        if config.busy and self._random.random() < config.busy:
            return Answer.BUSY
        if config.refused and self._random.random() < config.refused:
            return Answer.REFUSED
        if not pod.deleting:
            pod.deleting = True
            pod.revision = self._happens("evict", uid, pod.node)
            self._disrupt(pod)
            if config.grace_ms:
                self._after(config.grace_ms, "delete", uid)
            else:
                self.delete([uid], "evicted")
        lost = config.lost_response
        return Answer.UNKNOWN if lost and self._random.random() < lost else Answer.DONE

    def _disrupt(self, pod: SimPod) -> None:
        """Lower the allowed disruptions of the budgets that cover the pod, and record the pod
        there.
        """
        pods = self._batches[pod.batch].pods
        labels = dict(pods.labels)
        for budget in list(self.budgets.values()):
            wanted = budget.match_labels
            if budget.namespace != pods.namespace or not wanted:
                continue
            if all(labels.get(key) == value for key, value in wanted):
                disrupted = (*budget.disrupted, pod.uid)
                allowed = max(0, budget.allowed - 1)
                self._set_budget(
                    msgspec.structs.replace(budget, allowed=allowed, disrupted=disrupted)
                )

    # -------------------------------------------------------------------------------- views

    def created_with(self, pod: SimPod) -> PodsSeen:
        """Return the pod as it was created, with its arrival."""
        return self._batches[pod.batch].pods

    def _shown(self, uid: str) -> PodRead:
        pod = self.pods.get(uid)
        return GONE if pod is None else PodRead(Answer.DONE, pod.node, pod.revision)

    def _columns(self, pods: Iterable[SimPod]) -> list[PodsSeen]:
        """Return pods as they are now, one event for each arrival they came with."""
        groups: dict[tuple[int, bool], list[SimPod]] = {}
        for pod in pods:
            groups.setdefault((pod.batch, pod.gated), []).append(pod)
        events = []
        for (batch, gated), group in groups.items():
            assigned = any(pod.node for pod in group)
            nodes = join([pod.node or UNASSIGNED for pod in group]) if assigned else ""
            events.append(
                msgspec.structs.replace(
                    self._batches[batch].pods,
                    uids=join([pod.uid for pod in group]),
                    names=join([pod.name for pod in group]),
                    revisions=pack([pod.revision for pod in group]),
                    nodes=nodes,
                    gated=gated,
                )
            )
        return events
