"""Checks that no pod is lost: at rest each is bound, deleted, or waits for a true reason.

Brute force over the cluster at the end: every node, every waiting pod, the rules of `fits`. It
knows nothing of caches, wake-ups or attempts. Where the GPU devices of a pod are unknown, a pod
counts as fitting only if it fits whichever devices are taken.
"""

import re
from collections import Counter
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from muster.checker.filters import claims
from muster.checker.filters.fits import Load, static_obstacle, surely_fits
from muster.checker.filters.group_members import NO_GROUP, agree
from muster.checker.filters.inter_pod_rules import (
    Around,
    Neighbours,
    Pairs,
)
from muster.checker.gangs.domains import domains_of
from muster.checker.gangs.hyper_nodes import with_published
from muster.checker.inputs.facts import Facts
from muster.checker.inputs.history import ClusterHistory, PodTruth
from muster.checker.inputs.journals import Journal, Problem
from muster.checker.quotas import AtEnd
from shared.events.base import Event
from shared.events.ingest import GangSet, PodsPending
from shared.events.queueing import (
    Activated,
    Confirmed,
    Dispatched,
    GangDispatched,
    GangWaits,
    Parked,
    QuotaReached,
    TryFailed,
    Woken,
)
from shared.model.columns import unpack
from shared.model.groups.topology import Topology
from shared.model.objects import Node, PodSpec
from shared.model.release import DEFAULT_OPTIONS

MESSAGE = re.compile(r"^(0/\d+ nodes are available: .+\.|no nodes available to schedule pods)")


@dataclass
class Waiting:
    """Queueing's last event and message about each pod and gang."""

    last: dict[int, str] = field(default_factory=dict)
    message: dict[int, str] = field(default_factory=dict)
    gang_message: dict[int, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def replay(journal: Journal) -> Waiting:
    """Replay queueing's whole journal."""
    books = Waiting()
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            if isinstance(event, PodsPending):
                _mark(books, event.ids, "pending")
        for event in step.own:
            _note(books, event)
    return books


def _mark(books: Waiting, ids: bytes, what: str) -> None:
    for pod in unpack(ids).tolist():
        books.last[pod] = what
        books.message.pop(pod, None)


def _note(books: Waiting, event: Event) -> None:
    match event:
        case Parked() | Confirmed():
            for pod in unpack(event.ids).tolist():
                books.last[pod], books.message[pod] = "parked", event.message
        case QuotaReached():
            for pod in unpack(event.ids).tolist():
                books.last[pod], books.message[pod] = "held", event.message
        case Dispatched():
            _mark(books, event.ids, "dispatched")
        case TryFailed():
            _mark(books, event.ids, "failed")
        case Woken():
            _mark(books, event.ids, "woken")
        case Activated():
            _mark(books, event.ids, "active")
        case GangDispatched():
            # The earlier message stays: a gang that fails for the same reason gets no new one.
            for part in event.members:
                for pod in unpack(part.ids).tolist():
                    books.last[pod] = "gang dispatched"
        case GangWaits():
            books.gang_message[event.gang] = event.message
        case _:
            pass


@dataclass
class Cluster:
    """The cluster at the end of the run."""

    nodes: list[Node]
    loads: dict[str, Load]
    namespaces: dict[str, Pairs] = field(default_factory=dict)
    is_ruled: bool = False
    version: str = DEFAULT_OPTIONS.compatibility
    is_advised: bool = False  # extenders or postFilter plugins decide too: gangs do not preempt
    queue_at: dict[int, str] = field(default_factory=dict)  # by pod, if any has a guarantee

    def room_for(self, pod: PodTruth, within: Container[str] | None = None) -> str | None:
        """Return the name of a node, among these if given, on which the pod fits, or None."""
        around = self._around(pod.spec, self.loads)
        for node in self.nodes:
            is_asked = within is None or node.name in within
            if is_asked and _fits(pod.spec, node, self.loads[node.name], around):
                return node.name
        return None

    def room_by_force(self, pod: PodTruth) -> str | None:
        """Return the name of a node on which it fits without the pods of lower priority,
        or None.
        """
        for node in self.nodes:
            load = self.loads[node.name]
            lower = self._lower(load, pod)
            if not lower:
                continue
            rest = load.without(lower)
            around = self._around(pod.spec, self.loads | {node.name: rest})
            if _fits(pod.spec, node, rest, around):
                return node.name
        return None

    def _lower(self, load: Load, pod: PodTruth) -> set[int]:
        """Return the pods of lower priority that may leave for a pod, whatever queues use: those in
        queues may be guaranteed.
        """
        lower = {one for one, spec in load.pods.items() if spec.priority < pod.spec.priority}
        return {one for one in lower if not self.queue_at.get(one, "")}

    def copies(self, pod: PodTruth, most: int, within: Container[str] | None = None) -> int:
        """Return how many copies of the pod fit at once, up to `most`, on the nodes of these names
        if given. Each copy reads all pods of the cluster.
        """
        count = 0
        loads = dict(self.loads)
        for node in self.nodes:
            is_outside = within is not None and node.name not in within
            if is_outside or static_obstacle(pod.spec, node) is not None:
                continue
            load = loads[node.name] = self.loads[node.name].without(())
            while count < most and _fits(
                pod.spec, node, load, self._around(pod.spec, loads, within)
            ):
                count += 1
                load.add(-count, pod.spec, _lowest_devices(pod, node, load))
        return count

    def copies_by_force(
        self, pod: PodTruth, most: int, within: Container[str] | None = None
    ) -> int:
        """Return how many fit without pods of lower priority, on the nodes of these names if given.
        For pods that request amounts only.
        """
        loads = {name: load.without(self._lower(load, pod)) for name, load in self.loads.items()}
        return replace(self, loads=loads).copies(pod, most, within)

    def domain_with_room(
        self, topology: Topology, pod: PodTruth, count: int, homes: Collection[str]
    ) -> str | None:
        """Return a domain in which so many copies of the pod fit beside members on the nodes
        `homes`, or None.
        """
        for name, within in domains_of(self.nodes, topology, homes):
            if self.copies(pod, count, within) >= count:
                return name
        return None

    def _around(
        self, spec: PodSpec, loads: dict[str, Load], within: Container[str] | None = None
    ) -> Around | None:
        """Return the inter-pod rules for the pod; None if no pod has any."""
        if not self.is_ruled:
            return None
        standing = ((node, loads[node.name]) for node in self.nodes)
        others = Neighbours(standing, self.namespaces, self.version, within=within)
        return Around(spec, others)


def _fits(spec: PodSpec, node: Node, load: Load, around: Around | None) -> bool:
    if around is not None and around.obstacle(node) is not None:
        return False
    return surely_fits(spec, node, load)


def _lowest_devices(pod: PodTruth, node: Node, load: Load) -> int:
    gpu = pod.spec.gpu
    if gpu is None:
        return 0
    used = [0] * node.gpu_count
    for one, spec in load.pods.items():
        for device in range(node.gpu_count):
            if spec.gpu is not None and load.devices.get(one, 0) >> device & 1:
                used[device] += spec.gpu.milli
    room = sorted(d for d in range(node.gpu_count) if used[d] + gpu.milli <= 1000)
    mask = 0
    for device in room[: gpu.count]:
        mask |= 1 << device
    return mask


def cluster_at_end(
    history: ClusterHistory, facts: Facts, devices: dict[int, int], version: str
) -> Cluster:
    """Build the loads of all nodes from the cluster's history, GPU devices from the
    shards' books.
    """
    loads = {node.name: Load() for node in history.nodes}
    for uid, pod in history.pods.items():
        if pod.node in loads and not pod.deleted:
            row = facts.id_of.get(uid, -len(loads[pod.node].pods) - 1_000_000)
            loads[pod.node].add(row, pod.spec, devices.get(row, 0))
    is_ruled = any(pod.spec.has_rules for pod in history.pods.values())
    nodes = with_published(history.nodes, facts)
    return Cluster(nodes, loads, history.namespaces, is_ruled, version)


def is_advised(journal: Journal) -> bool:
    """Return whether a shard ever had extenders that filter, score or preempt, or users' postFilter
    plugins: no pod is evicted for gangs that these take part in (ADR 0025).
    """
    claims = [entry.record.claim for entry in journal.entries]
    options = [claim.config.get("placement", {}) for claim in claims if claim is not None]
    extenders = [one for each in options for one in each.get("extenders", ())]
    profiles = [one for each in options for one in each.get("profiles", ())]
    verbs = ("filter_verb", "prioritize_verb", "preempt_verb")
    has_extenders = any(one.get(verb) for one in extenders for verb in verbs)
    plugins = [plugin for one in profiles for plugin in one.get("post_filter", ())]
    return has_extenders or any(plugin.get("sha256") for plugin in plugins)


def check(
    books: Waiting,
    facts: Facts,
    history: ClusterHistory,
    cluster: Cluster,
    committed: Container[int],
    queues: AtEnd,
) -> Iterator[Problem]:
    """Yield pods that the cluster shows without a node and that have no reason, or a false one."""
    cluster.queue_at = queues.guarded()
    for uid, pod in history.pods.items():
        if pod.deleted or pod.node or pod.gated:
            continue
        row = facts.id_of.get(uid, 0)
        is_held = books.last.get(row) == "held"
        if queues.are_over(_tried_with(facts, history, row, pod)):
            if is_held or pod.gang:
                continue
        elif is_held:
            yield ("queue-max", f"pod {row} ({pod.name}): waits for a queue with room")
        if row == 0:
            yield ("no-pod-lost", f"pod {pod.name}: never reached the world journal")
        elif pod.gang:
            yield from _check_member(books, facts, history, cluster, row, pod, committed)
        else:
            yield from _check_single(books, history, cluster, row, pod)


def _tried_with(facts: Facts, history: ClusterHistory, row: int, pod: PodTruth) -> set[int]:
    """Return the waiting members of a pod's gang, which its queues must have room for."""
    if not pod.gang:
        return {row}
    members = (p for p in history.pods.values() if p.gang == pod.gang and not p.node)
    return {facts.id_of.get(p.uid, 0) for p in members if not (p.deleted or p.gated)}


def _check_single(
    books: Waiting, history: ClusterHistory, cluster: Cluster, row: int, pod: PodTruth
) -> Iterator[Problem]:
    last, message = books.last.get(row, "unknown"), books.message.get(row, "")
    if last != "parked":
        yield ("no-pod-lost", f"pod {row} ({pod.name}): waits without a reason, last {last}")
        return
    if not MESSAGE.match(message) or not _is_sorted(message):
        yield ("message", f"pod {row} ({pod.name}): {message!r} is not kube-scheduler's form")
    if pod.spec.volumes or pod.spec.features:
        return  # this check does not know which volumes would match, nor whether features count
    within = claims.reached(history, pod) if pod.spec.claims else None
    if pod.spec.claims and within is None:
        return
    room = cluster.room_for(pod, within)
    if room is not None:
        yield ("no-pod-lost", f"pod {row} ({pod.name}): fits {room}, yet waits: {message}")
    elif not (pod.spec.never_preempts or pod.spec.claims):
        room = cluster.room_by_force(pod)
        if room is not None:
            yield ("preempts", f"pod {row} ({pod.name}): could preempt on {room}: {message}")


def _is_sorted(message: str) -> bool:
    """Return whether the reasons are sorted as strings, as in kube-scheduler's FitError."""
    reasons = message.partition(": ")[2].partition(". ")[0].rstrip(".").split(", ")
    return reasons == sorted(reasons)


def _check_member(
    books: Waiting,
    facts: Facts,
    history: ClusterHistory,
    cluster: Cluster,
    row: int,
    pod: PodTruth,
    committed: Container[int],
) -> Iterator[Problem]:
    gang = facts.gang_of.get(row, 0)
    group = facts.gangs.get(gang)
    members = [p for p in history.pods.values() if p.gang == pod.gang and not p.deleted]
    free = [p for p in members if not p.gated]
    existing = {one.name for one in history.nodes}
    if history.undone and any(p.node and p.node not in existing for p in members):
        return  # bound to a node that a restore has undone: it is not known to run
    if group is None or gang in facts.gone_gangs or len(free) < group.min_count:
        return
    last = books.last.get(row, "unknown")
    said = books.gang_message.get(gang, "")
    if group is not None and group.root:
        said = books.gang_message.get(group.root, "")
    message = books.message.get(row, "") or said
    if not message:
        yield ("no-pod-lost", f"gang member {row} ({pod.name}): waits unexplained, last {last}")
    if group.root:
        yield from _check_tree(facts, history, cluster, group, pod)
        return
    needed = group.min_count - sum(1 for p in members if p.node)
    together = max(1, needed)  # after a reset a gang is tried although enough run
    specs = {p.spec for p in free if not p.node}
    if gang not in committed:
        tries = agree(cluster.version, pod.gang, group.priority, specs)
        if tries is message.startswith(NO_GROUP):
            yield ("message", f"gang {gang} ({pod.gang}): {message!r} about members that differ")
        if not tries:
            return
    if any(spec.volumes or spec.claims for spec in specs):
        return
    if group.topology is not None:
        yield from _check_in_domains(facts, cluster, group, pod, members, message)
    elif gang in committed and needed <= 0:
        room = cluster.room_for(pod)
        if room is not None:
            yield ("no-pod-lost", f"member {row} ({pod.name}) of a started gang fits {room}")
        elif not pod.spec.never_preempts:
            room = cluster.room_by_force(pod)
            if room is not None:
                text = f"member {row} ({pod.name}) of a started gang could preempt on {room}"
                yield ("preempts", f"{text}: {message}")
    elif len(specs) == 1 and cluster.copies(pod, together) >= together:
        yield ("no-pod-lost", f"gang {gang} ({pod.gang}) fits, yet waits: {message}")
    elif (
        len(specs) == 1
        and not cluster.queue_at  # shards may each take what guarantees allow once
        and _may_preempt(cluster, pod)
        and cluster.copies_by_force(pod, together) >= together
    ):
        yield ("preempts", f"gang {gang} ({pod.gang}) could preempt, yet waits: {message}")


def _check_tree(
    facts: Facts, history: ClusterHistory, cluster: Cluster, group: GangSet, pod: PodTruth
) -> Iterator[Problem]:
    """Yield a tree of CompositePodGroups that waits although all of its members are there and fit.
    Only trees whose members are alike are tried, and those with topologies in one domain of all
    their labels.
    """
    root = facts.gangs.get(group.root)
    leaves = {one.gang: one for one in facts.gangs.values() if one.root == group.root}
    if root is None or root.problem or pod.spec.volumes or pod.spec.claims:
        return
    keys = {one.key: one for one in leaves.values()}
    members = [p for p in history.pods.values() if p.gang in keys and not p.deleted]
    waiting = [p for p in members if not p.node]
    if any(p.gated or p.spec != pod.spec for p in waiting):
        return
    there = Counter(p.gang for p in members)
    is_whole = all(there[key] >= one.min_count for key, one in keys.items())
    levels = tuple(dict.fromkeys(node.key for node in root.tree if node.key))
    deepest = len(levels) - 1
    topology = Topology(levels, lowest=deepest, highest=deepest)
    homes = {p.node for p in members if p.node}
    if is_whole and cluster.domain_with_room(topology, pod, len(waiting), homes) is not None:
        yield ("no-pod-lost", f"tree {group.root} ({root.key}) fits with all members, yet waits")


def _check_in_domains(
    facts: Facts,
    cluster: Cluster,
    group: GangSet,
    pod: PodTruth,
    members: Sequence[PodTruth],
    message: str,
) -> Iterator[Problem]:
    """Yield a gang with a topology that waits although a domain has room for all needed members.
    Members that ran when the epoch began are not known to be members.
    """
    running = [one for one in members if one.node]
    specs = {one.spec for one in members if not (one.node or one.gated)}
    is_known = all(facts.gang_of.get(facts.id_of.get(one.uid, 0)) for one in running)
    if group.topology is None or not is_known or len(specs) > 1:
        return
    needed = max(1, group.min_count - len(running))
    homes = {one.node for one in running}
    domain = cluster.domain_with_room(group.topology, pod, needed, homes)
    if domain is not None:
        text = f"gang {group.gang} ({pod.gang}) waits, {needed} fit in domain {domain}: {message}"
        yield ("no-pod-lost", text)
    elif _may_preempt(cluster, pod):
        broadest = msgspec.structs.replace(group.topology, lowest=group.topology.highest)
        for name, within in domains_of(cluster.nodes, broadest, homes):
            if cluster.copies_by_force(pod, needed, within) >= needed:
                text = f"gang {group.gang} ({pod.gang}) could preempt in domain {name}"
                yield ("preempts", f"{text}, yet waits: {message}")


def _may_preempt(cluster: Cluster, pod: PodTruth) -> bool:
    """Return whether brute force can predict preemption for a gang of such pods."""
    has_more = bool(pod.spec.gpu or pod.spec.volumes or pod.spec.claims or pod.spec.host_ports)
    return not (pod.spec.never_preempts or has_more or cluster.is_ruled or cluster.is_advised)
