"""Checks by brute force that every pod of a finished run is bound or waits for a true reason.

Plain Python over all nodes that shares no code with the scheduling framework. For each waiting pod
no node may fit, and its message must name the true reasons with their counts of nodes (where
inter-pod rules apply, only the reasons that follow from nodes alone). For a waiting gang no greedy
packing of minCount members may succeed; if only some of the packings succeed, no scheduler promises
to find them, so `another_packing` counts the gang and it is no problem. Otherwise its message must
have the right number of members and the reasons that are left with those members placed.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from muster.checker.filters.default_filters import (
    as_by_default,
    filters_by_default,
    has_own_filters,
)
from muster.checker.filters.fits import (
    STATIC_RULES,
    Load,
    device_room,
    full_for,
    static_obstacle,
    words_of_full,
)
from muster.checker.filters.group_members import NO_GROUP, agree
from muster.checker.filters.inter_pod_rules import (
    Around,
    Neighbours,
    Pairs,
)
from muster.checker.gangs.domains import domains_of
from shared.extenders.values import CALLED, POD
from shared.model.groups.topology import Topology
from shared.model.objects import CPU, Gang, Node, PodSpec
from shared.model.profile import Profile
from shared.model.release import DEFAULT_OPTIONS
from shared.model.text import counted

GATED = "waiting for scheduling gates"
NO_NODES = "no nodes available to schedule pods"

_ADDED = "no new claims to deallocate|preemption: |not found"  # by kube-scheduler's own plugins
_MESSAGE = re.compile(rf"0/(\d+) nodes are available: (.+?)\.(?: (?:{_ADDED}).*)?")
_ADDED_TO = re.compile(r"0/(\d+) nodes are available: (.+?)\. .+")  # by plugins of users
_OF_A_QUEUE = re.compile(r"queue \S+ (is at its max|does not exist)")
_MEMBERS = re.compile(
    r"(gang \S+: (\d+) of (\d+) members have a node(?: in [^;]+)?; "
    r"(\d+) more(?:: (.+?))?)\.(?: .+)?"
)
_TIMED_OUT = re.compile(r"(gang \S+) timed out after \S+ s")
_NOT_TRIED = ("waiting for minCount pods from a gang to be waiting on permit", " to have a node.")
_STATIC = frozenset(reason for reason, _rule in STATIC_RULES)


@dataclass
class Waiting:
    """A live pod without a node."""

    number: int
    name: str
    spec: PodSpec
    message: str
    gang: str = ""
    gated: bool = False
    permit_rejected_by: str = ""
    """Which user plugin keeps it out of the queue (preEnqueue), and why."""
    other_words: bool = False

    @property
    def is_queued(self) -> bool:
        """Return whether the pod is in the queue."""
        return not (self.gated or self.permit_rejected_by)


@dataclass
class Final:
    """The state at the end: nodes, their loads, and the waiting pods."""

    nodes: list[Node]
    loads: dict[str, Load] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)
    gangs: Mapping[str, Gang] = field(default_factory=dict)
    running: Counter[str] = field(default_factory=Counter)
    """Bound members by gang."""
    homes: dict[str, set[str]] = field(default_factory=dict)
    """Names of the nodes of bound members by gang."""
    namespaces: Mapping[str, Pairs] = field(default_factory=dict)
    version: str = DEFAULT_OPTIONS.compatibility
    """Of the kube-scheduler that decisions follow."""

    def load(self, node: Node) -> Load:
        """Return the load of a node."""
        return self.loads.setdefault(node.name, Load())

    @cached_property
    def _some_have_rules(self) -> bool:
        return any(pod.has_rules for load in self.loads.values() for pod in load.pods.values())

    def around(
        self,
        spec: PodSpec,
        trial: Mapping[str, Load] | None = None,
        within: Set[str] | None = None,
    ) -> Around | None:
        """Return the inter-pod rules for a pod, with the loads of `trial` in place of the real
        ones; None if no pod has rules. `within`: the only nodes that a spread counts, by name.
        """
        if not (spec.has_rules or self._some_have_rules):
            return None
        loads = [(node, (trial or {}).get(node.name) or self.load(node)) for node in self.nodes]
        return Around(spec, Neighbours(loads, self.namespaces, self.version, within=within))


@dataclass
class Verdict:
    """The result: no `problems` means confirmed; `reasons` counts waiting pods by reason."""

    problems: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    another_packing: int = 0


def confirm(
    final: Final, profiles: Mapping[str, Profile] | None = None, proven: set[int] | None = None
) -> Verdict:
    """Check every waiting pod and gang. `profiles` are by schedulerName.

    `proven` are the pods (by number) whose messages were true at a check since the cluster last
    changed; this check adds to them. A gang that waits for more room holds some for a while, and
    the messages of other pods count the held room: perhaps they are never all true at once.

    Pods with volumes or claims or that need features, refusals by users' plugins or extenders, and
    pods that wait for their queue are not checked: their rules are not known here.
    """
    verdict = Verdict()
    _as_by_default(final, profiles or {})
    with_filters = {name for name, one in (profiles or {}).items() if has_own_filters(one)}
    shown: dict[tuple[PodSpec, str, bool], str | None] = {}
    proven = set() if proven is None else proven
    for pod in final.waiting:
        verdict.reasons[_reason(final, pod)] += 1
        if not pod.is_queued or pod.number in proven:
            continue
        if not pod.message:
            verdict.problems.append(f"pod {pod.name} waits without a message")
        elif _is_checked(pod, with_filters) and not _is_gang_waiting(final, pod):
            key = (pod.spec, pod.message, pod.other_words)
            if key not in shown:
                shown[key] = _single_problem(final, pod)
            if shown[key] is None:
                proven.add(pod.number)
            else:
                verdict.problems.append(f"pod {pod.name}: {shown[key]}")
    for gang, members in _waiting_gangs(final):
        if all(_is_checked(member, with_filters) for member in members):
            _check_gang(final, gang, members, verdict, proven)
    return verdict


def _is_checked(pod: Waiting, with_filters: Set[str]) -> bool:
    """Return whether all of the pod's rules are known here."""
    is_extended = POD in dict(pod.spec.shown) or any(one.binds(pod.spec) for one in CALLED)
    is_unknown = bool(pod.spec.volumes or pod.spec.claims or pod.spec.features) or is_extended
    is_unknown |= _OF_A_QUEUE.match(pod.message) is not None
    return pod.spec.scheduler not in with_filters and not is_unknown


def _as_by_default(final: Final, profiles: Mapping[str, Profile]) -> None:
    """Give pods of profiles with other filters a spec that the default filters treat alike. Another
    filter may refuse first, so their messages are not compared.
    """
    for pod in final.waiting:
        profile = profiles.get(pod.spec.scheduler)
        if profile is not None and not filters_by_default(profile):
            pod.spec = as_by_default(pod.spec, profile)
            pod.other_words = True


def _is_gang_waiting(final: Final, pod: Waiting) -> bool:
    """Return whether the pod waits for its gang: fewer than minCount members run, or all must run
    in one domain.
    """
    if not pod.gang:
        return False
    gang = final.gangs.get(pod.gang)
    if gang is None or gang.topology is not None or gang.is_in_tree:
        return True
    return final.running[pod.gang] < gang.min_count


def _match(message: str) -> re.Match[str] | None:
    """Match the count of nodes and the reasons, with or without text added after them."""
    return _MESSAGE.fullmatch(message) or _ADDED_TO.fullmatch(message)


def reasons_of(final: Final, pod: Waiting) -> list[str]:
    """Return the reasons in the pod's message, those of most nodes first; of a waiting gang what it
    is short of, as one.
    """
    if not pod.is_queued:
        return [GATED if pod.gated else pod.permit_rejected_by]
    message = _without_time_out(pod.message)
    members = _MEMBERS.fullmatch(message)
    if members is not None:
        return [members[1]]
    match = _match(message)
    if match is None:
        return [message or "(no message)"]
    if _is_gang_waiting(final, pod) and pod.gang in final.gangs:
        least = final.gangs[pod.gang].min_count
        return [f"gang {pod.gang}: 0 of {least} members have a node; {least} more: {match[2]}"]
    return [reason for _, reason in sorted(_parts(match[2]), key=lambda part: -part[0])]


def _reason(final: Final, pod: Waiting) -> str:
    """Return the message without its counts of nodes; of a waiting gang with all its counts."""
    is_member = pod.gang and pod.is_queued and not _is_gang_waiting(final, pod)
    prefix = "gang: " if is_member and _match(pod.message) else ""
    return prefix + ", ".join(sorted(reasons_of(final, pod)))


def _without_time_out(message: str) -> str:
    """Return what the last try of a gang was short of, whether its time is over or not."""
    match = _TIMED_OUT.match(message)
    rest = message[match.end() :] if match else ""
    if match is None or not rest.startswith(": "):
        return message
    is_of_a_pod = _match(rest[2:]) is not None or rest[2:] == NO_NODES
    return rest[2:] if is_of_a_pod else match[1] + rest


def _parts(text: str) -> Iterator[tuple[int, str]]:
    for part in text.split(", "):
        count, _, reason = part.partition(" ")
        # A reason about no particular node has no count.
        yield (int(count), reason) if count.isdigit() else (-1, part)


# ------------------------------------------------------------------------------------ single pods


def _single_problem(final: Final, pod: Waiting) -> str | None:
    static: Counter[str] = Counter()
    full: Counter[str] = Counter()
    left = 0
    around = final.around(pod.spec)
    for node in final.nodes:
        obstacle = static_obstacle(pod.spec, node)
        if obstacle in _STATIC:
            static[obstacle] += 1
        elif obstacle is None and _fits(pod.spec, node, final.load(node), around):
            return f"waits ({pod.message}) but fits on node {node.name}"
        else:
            left += 1
            full.update(words_of_full(pod.spec, node, final.load(node)))
    if pod.other_words:
        return None
    problem = _message_problem(pod.message, static, left, len(final.nodes))
    return problem if problem or around is not None else _count_problem(pod.message, full)


def _fits(spec: PodSpec, node: Node, load: Load, around: Around | None) -> bool:
    """Return whether the pod fits, if all static rules allow the node."""
    if full_for(spec, node, load) is not None:
        return False
    return around is None or around.obstacle(node) is None


def _message_problem(message: str, static: Counter[str], left: int, nodes: int) -> str | None:
    """Return what is false in the message: the count of nodes, or a reason that loads cannot
    change.
    """
    if nodes == 0:
        return None if message == NO_NODES else f"there are no nodes, the message is {message!r}"
    match = _match(message)
    if match is None:
        return f"the message {message!r} gives no reasons"
    if int(match[1]) != nodes:
        return f"the message {message!r} names another number of nodes than {nodes}"
    counts = {reason: count for count, reason in _parts(match[2])}
    for reason in sorted(_STATIC):
        if counts.get(reason, 0) != static[reason]:
            return (
                f"{message!r}: brute force finds {counted(static[reason], 'node')} with {reason!r}"
            )
    if sum(counts.values()) < nodes:
        return f"{message!r}: the reasons cover fewer than {counted(nodes, 'node')}"
    if left and not set(counts) - _STATIC:
        return f"{message!r}: no reason for {counted(left, 'node')}"
    return None


def _count_problem(message: str, full: Counter[str]) -> str | None:
    """Return what is false in the counts of full nodes, compared with the end of the run."""
    match = _match(message)
    counts = {} if match is None else {reason: count for count, reason in _parts(match[2])}
    for reason in sorted(full.keys() | counts.keys() - _STATIC):
        if counts.get(reason, 0) != full[reason]:
            return f"{message!r}: brute force finds {counted(full[reason], 'node')} with {reason!r}"
    return None


# ------------------------------------------------------------------------------------------ gangs


def _waiting_gangs(final: Final) -> Iterator[tuple[Gang, list[Waiting]]]:
    members: dict[str, list[Waiting]] = {}
    for pod in final.waiting:
        if pod.gang and pod.is_queued and _is_gang_waiting(final, pod):
            members.setdefault(pod.gang, []).append(pod)
    for key, found in members.items():
        gang = final.gangs.get(key)
        if gang is not None and not gang.is_in_tree:
            yield gang, found


def _check_gang(
    final: Final, gang: Gang, members: list[Waiting], verdict: Verdict, proven: set[int]
) -> None:
    needed = max(1, gang.min_count - final.running[gang.key])
    # Whether the members of each part would fit is not tried.
    if len(members) < needed or gang.minimums:
        return
    specs = [pod.spec for pod in members]
    tries = agree(final.version, gang.key, gang.priority, specs)
    if not tries or members[0].message.startswith(NO_GROUP):
        if any(tries is pod.message.startswith(NO_GROUP) for pod in members):
            message = members[0].message
            verdict.problems.append(f"gang {gang.key} waits ({message}) whose members differ")
        return
    nodes = sorted(final.nodes, key=lambda node: node.name)
    if gang.topology is not None:
        _check_domains(final, gang, gang.topology, members, verdict)
        return
    by_load = sorted(nodes, key=lambda node: (final.load(node).used(CPU), node.name))
    fits = [_pack(final, members, needed, order) for order in (nodes, by_load, by_load[::-1])]
    if all(fits):
        message = members[0].message
        verdict.problems.append(f"gang {gang.key} waits ({message}) but {needed} members fit")
    elif any(fits):
        verdict.another_packing += 1
    elif not proven.issuperset(pod.number for pod in members):
        problem = _members_problem(final, gang, members)
        if problem is None:
            proven.update(pod.number for pod in members)
        else:
            verdict.problems.append(f"gang {gang.key}: {problem}")


def _check_domains(
    final: Final, gang: Gang, topology: Topology, members: list[Waiting], verdict: Verdict
) -> None:
    """Check that no domain has room beside the members that run. Messages are not compared."""
    needed = max(1, gang.min_count - final.running[gang.key])
    homes = final.homes.get(gang.key, set())
    for name, within in domains_of(final.nodes, topology, homes):
        nodes = [node for node in final.nodes if node.name in within]
        by_load = sorted(nodes, key=lambda node: (final.load(node).used(CPU), node.name))
        orders = (by_load, by_load[::-1])
        if all(_pack(final, members, needed, order, within) for order in orders):
            text = (
                f"gang {gang.key} waits ({members[0].message}) but {needed} members fit in {name}"
            )
            verdict.problems.append(text)
            return


def _members_problem(final: Final, gang: Gang, members: list[Waiting]) -> str | None:
    """Return what is false in the message. Members that differ are not counted: the order decides
    how many have a node.
    """
    message, pod = _without_time_out(members[0].message), members[0]
    if message.endswith(_NOT_TRIED):
        return None
    match = _MEMBERS.fullmatch(message)
    running = final.running[gang.key]
    have, least, missing = map(int, match.group(2, 3, 4)) if match else (running, 0, 0)
    reasons = f"0/{len(final.nodes)} nodes are available: {match[5] or ''}." if match else message
    if any(one.spec != pod.spec for one in members):
        problems = (_fitting(final, one) for one in members) if have == running else ()
        return next((f"waits ({message}) but {text}" for text in problems if text), None)
    if _is_uncountable(final, pod):
        return None
    placed, loads = _placed(final, members)
    counts = running + placed, gang.min_count, gang.min_count - running - placed
    if (have, least, missing) != counts if match else placed:
        return f"{message!r}: brute force finds {counts[0]} of {counts[1]} members with a node"
    return _single_problem(replace(final, loads=loads), replace(pod, message=reasons))


def _fitting(final: Final, pod: Waiting) -> str:
    """Return on which node the pod fits; empty if on none."""
    around = final.around(pod.spec)
    for node in final.nodes:
        is_allowed = static_obstacle(pod.spec, node) is None
        if is_allowed and _fits(pod.spec, node, final.load(node), around):
            return f"{pod.name} fits on node {node.name}"
    return ""


def _is_uncountable(final: Final, pod: Waiting) -> bool:
    """Return whether the order of places decides how many such pods fit: inter-pod rules, or
    unknown devices.
    """
    if pod.other_words or final.around(pod.spec) is not None:
        return True
    rooms = (device_room(node, final.load(node)) for node in final.nodes)
    return pod.spec.gpu is not None and any(room is None for room in rooms)


def _placed(final: Final, members: Sequence[Waiting]) -> tuple[int, dict[str, Load]]:
    """Return how many of these equal pods fit, and the loads with them."""
    loads, left = dict(final.loads), list(members)
    for node in final.nodes:
        if not left or static_obstacle(left[0].spec, node) is not None:
            continue
        load = final.load(node)
        while left and _fits(left[0].spec, node, load, None):
            pod = left.pop()
            load = load.plus(pod.number, pod.spec, _devices(pod.spec, node, load))
        loads[node.name] = load
    return len(members) - len(left), loads


def _pack(
    final: Final,
    members: Sequence[Waiting],
    needed: int,
    order: Sequence[Node],
    within: Set[str] | None = None,
) -> bool:
    """Return whether `needed` members fit, one by one, each on the first node in `order`
    that fits. `within`: the only nodes that a spread counts, by name.
    """
    trial: dict[str, Load] = {}
    placed = 0
    for number, pod in enumerate(members):
        if placed + len(members) - number < needed:
            return False
        around = final.around(pod.spec, trial, within)
        for node in order:
            load = trial.get(node.name) or final.load(node)
            if static_obstacle(pod.spec, node) is None and _fits(pod.spec, node, load, around):
                trial[node.name] = load.plus(pod.number, pod.spec, _devices(pod.spec, node, load))
                placed += 1
                break
        if placed >= needed:
            return True
    return False


def _devices(spec: PodSpec, node: Node, load: Load) -> int:
    """Return a device mask for the pod: the tightest device for a share, else the first
    empty ones.
    """
    free = device_room(node, load)
    if spec.gpu is None or free is None:
        return 0
    fitting = [at for at, room in enumerate(free) if room >= spec.gpu.milli]
    chosen: Iterable[int] = sorted(fitting, key=lambda at: free[at])[:1]
    if spec.gpu.milli >= 1000:
        chosen = fitting[: spec.gpu.count]
    return sum(1 << at for at in chosen)
