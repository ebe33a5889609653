"""The rules. Every pod of ours is bound once, or waits with a true and fresh message. No node is
overfilled by what its decision could know. Of a gang no member is bound, or enough are. Races with
other schedulers are listed and not counted as problems.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from tests.live.checker import gangs
from tests.live.checker.audit import Post, posts
from tests.live.checker.cluster_state import NODES, PODS, Change, World
from tests.live.checker.deletes import wrong_deletes
from tests.live.checker.fits import Amounts, requests
from tests.live.checker.journals import Journals, by_epoch
from tests.live.checker.pending_pods import waits
from tests.live.checker.shard_books import Decision, keep

CREATED = 201


@dataclass(frozen=True)
class Race:
    """A bind of ours that found less room, or other neighbours, than its decision knew of. `missed`
    are the pods on its node that our shard did not know; `stale_s` is the age of the oldest of them
    at our decision, 0 when it came later, while our bind was in flight. `told_s` is the time at
    which our shard knew them all, infinity if never.
    """

    revision: int
    pod: str
    node: str
    resources: tuple[str, ...]
    missed: tuple[str, ...]
    stale_s: float
    decided_s: float
    told_s: float
    bound_s: float


@dataclass
class Verdict:
    """`problems` is empty when all is well. `told_after_s` is how long after each foreign bind our
    shard learned of it.
    """

    problems: list[str] = field(default_factory=list)
    races: list[Race] = field(default_factory=list)
    told_after_s: list[float] = field(default_factory=list)
    bound: int = 0
    waiting: int = 0


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The inputs of a check. `changes` begin with the existing objects; changes up to `since` (at
    time `since_s`) are not checked.
    """

    changes: Sequence[Change]
    audit: Iterable[Mapping[str, Any]]
    journals: Journals
    now_s: float
    since: int = 0
    since_s: float = 0.0
    schedulers: frozenset[str] = frozenset({"muster"})


@dataclass
class _Life:
    """A pod of our scheduler, by uid."""

    name: str
    node: str = ""
    # The revision of its bind; None when that was before our time.
    bound_at: int | None = None


def check(evidence: Evidence) -> Verdict:
    """Check one run; return the verdict."""
    return _Case(evidence).judge()


class _Case:
    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.verdict = Verdict()
        self.blame = self.verdict.problems.append
        self.posts = posts(evidence.audit)
        self.lives: dict[str, _Life] = {}
        # When each node was last changed.
        self.node_s: dict[str, float] = {}
        # The pods of each gang that ever had a node, and how many of them there must be.
        self.members: dict[str, set[str]] = {}
        self.least: dict[str, int] = {}
        # Gangs with a member that was deleted before it had a node.
        self.bereft: set[str] = set()
        self.asked: dict[str, Amounts] = {}
        for change in evidence.changes:
            if change.key.startswith(PODS) and change.value is not None:
                self.asked[change.value["metadata"]["uid"]] = requests(change.value)
        self.epochs = by_epoch(evidence.journals)
        self.books = [books for journals in self.epochs for books in keep(journals, self.asked)]
        self.decisions: dict[str, list[Decision]] = {}
        for books in self.books:
            for decision in books.decisions:
                self.decisions.setdefault(decision.uid, []).append(decision)

    def judge(self) -> Verdict:
        world = self._walk()
        self._binds()
        for books in self.books:
            self.verdict.problems += books.problems
        self._told()
        self._gangs()
        for journals in self.epochs:
            self.verdict.problems += wrong_deletes(journals, self.evidence.changes)
        self._rest(world)
        return self.verdict

    def _rest(self, world: World) -> None:
        """Check that every pod without a node waits with a message."""
        waiting = {
            key: pod
            for key, pod in world.pods.items()
            if self._ours(pod)
            and not pod["spec"].get("nodeName")
            and not pod["spec"].get("schedulingGates")
            and not pod["metadata"].get("deletionTimestamp")
        }
        self.verdict.waiting = len(waiting)
        evidence = self.evidence
        self.verdict.problems += waits(evidence.changes, world, waiting, evidence.now_s)

    def _ours(self, pod: Mapping[str, Any]) -> bool:
        return pod["spec"].get("schedulerName") in self.evidence.schedulers

    # ------------------------------------------------------------------------- etcd's history

    def _walk(self) -> World:
        """Follow every change: each bind is made once and fits its node."""
        world = World()
        for change in self.evidence.changes:
            before = world.pods.get(change.key)
            world.apply(change)
            if change.value is None and before is not None and before["spec"].get("workloadRef"):
                self.bereft |= set() if before["spec"].get("nodeName") else {gangs.gang_of(before)}
            if change.key.startswith(NODES):
                self.node_s[change.key.removeprefix(NODES)] = change.time_s
            if change.key.startswith(PODS) and change.value is not None:
                self._seen(world, change, before)
        return world

    def _seen(self, world: World, change: Change, before: Mapping[str, Any] | None) -> None:
        pod = change.value
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        was = ""
        if before is not None and before["metadata"]["uid"] == uid:
            was = before["spec"].get("nodeName", "")
        if was and node != was:
            self.blame(f"{change.key} ({uid}) moved from {was} to {node or 'no node'}")
        if not self._ours(pod):
            return
        life = self.lives.setdefault(uid, _Life(change.key.removeprefix(PODS)))
        life.node = node
        if node and not was:
            self._member(world, pod)
        if node and not was and change.revision > self.evidence.since:
            life.bound_at = change.revision
            self.verdict.bound += 1
            for text in world.disks_wrong(pod):
                self.blame(f"{life.name} was bound to {node}: {text}")
            self._race(world, change, uid, node)

    def _member(self, world: World, pod: Mapping[str, Any]) -> None:
        least = gangs.least_of(world, pod)
        if least:
            gang = gangs.gang_of(pod)
            self.members.setdefault(gang, set()).add(pod["metadata"]["uid"])
            self.least[gang] = least

    def _gangs(self) -> None:
        """Check at the end that no gang is bound in part; members that have left count, too."""
        for gang, uids in self.members.items():
            if len(uids) < self.least[gang] and gang not in self.bereft:
                self.blame(f"gang {gang}: {len(uids)} bound, of at least {self.least[gang]}")

    def _race(self, world: World, change: Change, uid: str, node: str) -> None:
        decided = [one for one in self.decisions.get(uid, ()) if one.node == node]
        over = self._wrong(world, change.value, node)
        if not decided or not over:
            return
        last = decided[-1]
        there = {pod["metadata"]["uid"]: pod for pod in world.on.get(node, {}).values()}
        missed = [other for other in there if other not in last.known and other != uid]
        # Without such a pod it is the node itself that changed.
        since_s = [self._bound_s(other) for other in missed] or [self.node_s[node]]
        stale_s = max([0.0, *(last.time_s - one for one in since_s if one)])
        names = tuple(sorted(there[other]["metadata"]["name"] for other in missed))
        name = change.key.removeprefix(PODS)
        told_s = max([0.0, *map(self._told_s, missed)])
        self.verdict.races.append(
            Race(
                change.revision,
                name,
                node,
                tuple(over),
                names,
                stale_s,
                last.time_s,
                told_s,
                change.time_s,
            )
        )

    def _wrong(self, world: World, pod: Any, node: str) -> list[str]:
        """Return what is wrong with the pod on the node in etcd's present state."""
        if node not in world.nodes:
            return ["the node itself"]
        around = world.around(pod)
        said = around.apart(world.nodes[node]) if around else ""
        return [*world.over(node), *filter(None, [said])]

    def _bound_s(self, uid: str) -> float:
        """Return when the server had bound this pod, in seconds; 0 if it did not report it."""
        found = [one.time_s for one in self.posts if one.uid == uid and one.code == CREATED]
        return found[0] if found else 0.0

    def _told_s(self, uid: str) -> float:
        """Return when one of our shards learned of this pod on a node, in seconds."""
        return min((one.told_s[uid] for one in self.books if uid in one.told_s), default=inf)

    # ------------------------------------------------------------------------------ audit log

    def _binds(self) -> None:
        done = [one for one in self.posts if one.ours and one.code == CREATED]
        for uid, count in Counter(one.uid for one in done).items():
            if not uid:
                self.blame(f"{count} binds without the uid of their pods")
            elif count > 1:
                self.blame(f"pod {uid} was bound {count} times")
        for one in done:
            self._one_bind(one)

    def _one_bind(self, one: Post) -> None:
        life = self.lives.get(one.uid)
        if life is None:
            # Created and deleted before the history began.
            return
        if life.node != one.node:
            self.blame(f"{one.pod} ({one.uid}) was bound to {one.node} and is on {life.node!r}")
        if life.bound_at is None or not self.evidence.journals:
            return
        if not any(decision.node == one.node for decision in self.decisions.get(one.uid, ())):
            self.blame(f"{one.pod} ({one.uid}) was bound to {one.node} without a decision")

    def _told(self) -> None:
        for one in self.posts:
            if one.ours or one.code != CREATED or one.time_s < self.evidence.since_s:
                continue
            told = [books.told_s[one.uid] for books in self.books if one.uid in books.told_s]
            self.verdict.told_after_s += [min(told) - one.time_s] if told else []
