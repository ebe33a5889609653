"""Permit's state: open attempts of gangs, their permit timeouts, pods that are no members any
more, and turns of shards.

Three parts are derived: the gangs of each pod, the attempts with something to
decide, and the timeouts in order of time.
"""

from bisect import insort
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import InitVar, dataclass, field

from msgspec import Struct

from services.permit.core.config import Config
from services.permit.core.plan import Group, Plan
from services.permit.core.transitions import Phase, following
from shared.events.queueing import Minimum
from shared.machine.core import MachineState
from shared.machine.saved import Derived
from shared.model.groups.topology import DomainOffer, Path, Scoring, Topology
from shared.model.groups.trees import GroupTree, feasible_leaves, has_topology
from shared.model.ids import (
    NO_ATTEMPT,
    NO_GANG,
    AttemptId,
    GangId,
    JournalName,
    NodeId,
    PodId,
    SignatureId,
)
from shared.model.objects import PodSpec
from shared.model.pod_rules.rule_counts import SignatureCounts
from shared.model.podset import PodSet

Key = tuple[GangId, AttemptId]
"""(gang, attempt)"""
Reasons = tuple[tuple[str, int], ...]


class ShardOffer(Struct):
    """A shard's latest offer to an attempt: how many members of each group fit, and why
    not more. `placed`: if it refused to hold members, how many of them would fit. The others are
    as in GangOffered.
    """

    counts: tuple[int, ...]
    reasons: Reasons
    nodes: int
    placed: int = 0
    domains: tuple[DomainOffer, ...] = ()
    homes: tuple[Path, ...] = ()
    scoring: Scoring | None = None
    whole: tuple[int, ...] = ()
    kept: int = 0


class Hold(Struct, frozen=True, gc=False):
    """A member's place, charged in the shard's ledger until this journal ends the hold."""

    node: NodeId
    shard: int


class PermitTimeout(Struct):
    """The permit timeout of a gang from its first attempt on, kept until it commits or times out.
    `races`: attempts within it whose offered room was taken by others. `excluded`: topology domains
    in which its last attempts could not hold enough members.
    """

    start_ms: int
    timeout_ms: int
    attempt: AttemptId
    races: int = 0
    excluded: list[Path] = []

    @property
    def due_ms(self) -> int:
        """Return when all holds are released, ms."""
        return self.start_ms + self.timeout_ms


class Attempt(Struct):
    """One attempt of a gang. `groups`: the remaining members, (signature, ids) in order. `asked`:
    shard -> members to hold; `open_shards`: shards that have not answered yet. `bind_plugin_specs`:
    members at whose bind plugins act, ordered by the first of them; `with_volumes`: members with
    chosen volumes. `preempts`: as dispatched; `preemptible`: a shard says that preemption may help.
    `wide`: signatures that need a turn, ascending; in turns, `refusals` is how many shards have
    refused since the last hold. With a `topology`, members are held in one `domain`, and `placed`
    are the gang's members that have a node; `asked_at` and `chosen_at` number the question for
    offers and the choice of the domain in the order of such events. `minimums`: of members of some
    signatures. `tree`: of CompositePodGroups, with `leaves` parallel to `groups`: the PodGroup of
    each. `minimum_only`: no more than `min_count` members are held.
    """

    gang: GangId
    attempt: AttemptId
    version: int
    min_count: int
    groups: list[Group]
    phase: Phase = Phase.NEW
    plans: int = 0
    stale: bool = False
    offers: dict[int, ShardOffer] = {}
    asked: dict[int, list[PodId]] = {}
    open_shards: list[int] = []
    held: dict[PodId, Hold] = {}
    bind_plugin_specs: list[tuple[list[PodId], PodSpec]] = []
    with_volumes: list[PodId] = []
    preempts: bool = False
    preemptible: bool = False
    wide: list[SignatureId] = []
    refusals: int = 0
    topology: Topology | None = None
    placed: list[PodId] = []
    domain: Path | None = None
    minimums: tuple[Minimum, ...] = ()
    asked_at: int = 0
    chosen_at: int = 0
    tree: GroupTree = ()
    leaves: list[GangId] = []
    minimum_only: bool = False

    @property
    def key(self) -> Key:
        """Return the key of this attempt's holds."""
        return (self.gang, self.attempt)

    def kept(self) -> dict[int, int]:
        """Return how many places of lost members each shard keeps for the gang."""
        return {shard: offer.kept for shard, offer in self.offers.items() if offer.kept}

    @property
    def live(self) -> int:
        """Return the number of remaining members."""
        return sum(len(ids) for _sig, ids in self.groups)

    @property
    def cannot_commit(self) -> bool:
        """Return whether the attempt cannot commit any more, whatever the shards answer."""
        if self.stale or self.live < self.min_count or not self.meets_minimums():
            return True
        return bool(self.tree) and self.starting() is None

    @property
    def can_commit(self) -> bool:
        """Return whether all shards have answered and enough members are held."""
        if self.phase is not Phase.ANSWERED:
            return False
        if self.tree:
            return bool(self.starting(self.held))
        return len(self.held) >= self.min_count and self.meets_minimums(self.held)

    @property
    def levels(self) -> tuple[str, ...]:
        """Return the labels that its domains are of."""
        return () if self.topology is None else self.topology.levels

    @property
    def has_topology(self) -> bool:
        """Return whether groups of its tree have topologies."""
        return bool(self.tree) and has_topology(self.tree)

    @property
    def lacks_domain(self) -> bool:
        """Return whether no domain has room for the members."""
        return self.topology is not None and self.domain is None

    @property
    def needs_turn(self) -> bool:
        """Return whether the next shard must be asked to hold members in a turn."""
        if not self.wide or self.has_topology or self.cannot_commit or self.can_commit:
            return False
        is_answered = self.phase is Phase.ANSWERED and self.refusals < len(self.offers)
        return is_answered or self.phase is Phase.WAITING

    @property
    def minimums_rule(self) -> Callable[[Plan], bool] | None:
        """Return what a plan must meet besides its number of members; None for no minimums."""

        def is_enough(plan: Plan) -> bool:
            planned = {pod for chosen in plan.values() for _sig, ids in chosen for pod in ids}
            return self.meets_minimums(planned.union(self.held))

        return is_enough if self.minimums else None

    def meets_minimums(self, pods: Container[PodId] | None = None) -> bool:
        """Return whether these members, or all remaining ones, meet the minimums."""
        return all(
            one.least
            <= sum(
                pods is None or pod in pods
                for sig, ids in self.groups
                if sig in one.sigs
                for pod in ids
            )
            for one in self.minimums
        )

    def starting(self, pods: Container[PodId] | None = None) -> set[PodId] | None:
        """Return those of these members, or of all remaining ones, that start if these have a node:
        without those of infeasible groups. None if the whole tree is infeasible.
        """
        found: dict[GangId, list[PodId]] = {}
        for leaf, (_sig, ids) in zip(self.leaves, self.groups, strict=True):
            found.setdefault(leaf, []).extend(pod for pod in ids if pods is None or pod in pods)
        counts = {leaf: len(ids) for leaf, ids in found.items()}
        feasible = feasible_leaves(self.tree, counts)
        if feasible is None:
            return None
        return {pod for leaf in found if leaf in feasible for pod in found[leaf]}

    def drop_empty_groups(self) -> None:
        """Remove groups whose members are all deleted or have a node."""
        if self.tree:
            pairs = zip(self.leaves, self.groups, strict=True)
            self.leaves = [leaf for leaf, group in pairs if group[1]]
        self.groups = [group for group in self.groups if group[1]]

    def without_hold(self) -> list[Group]:
        """Return the members without a hold."""
        return [(sig, [pod for pod in ids if pod not in self.held]) for sig, ids in self.groups]

    def follow(self, event: str) -> None:
        """Apply the transition of `event`. Raises AssertionError with the story if
        there is none.
        """
        story = (
            f"gang {self.gang} attempt {self.attempt} version {self.version}, plan {self.plans}, "
            f"{len(self.held)} of {self.live} members held, {self.min_count} needed"
        )
        self.phase = following(self.phase, event, story)

    def drop(self, pod: PodId) -> None:
        """Remove a member that is deleted or has a node by other means."""
        for _sig, ids in self.groups:
            if pod in ids:
                ids.remove(pod)
        self.held.pop(pod, None)

    def lose(self, pods: Iterable[PodId]) -> None:
        """Count members that are deleted and had a node: as many more need one."""
        for pod in pods:
            if pod in self.placed:
                self.placed.remove(pod)
                self.min_count += 1


NO_KEY: Key = (NO_GANG, NO_ATTEMPT)
NO_SHARD = -1


class AskedTurn(Struct):
    """A shard that asked for a turn for pods of these signatures, ascending; or the attempt `of` a
    gang, which has NO_SHARD and stays in the line until it ends.
    """

    shard: int
    sigs: list[SignatureId]
    of: Key = NO_KEY


class Turn(Struct):
    """The present turn. `counts`: what the other shards have counted, until it is `granted`. `of`:
    the attempt whose members it is for.
    """

    number: int
    shard: int
    sigs: list[SignatureId]
    counts: dict[int, tuple[SignatureCounts, ...]] = {}
    granted: bool = False
    of: Key = NO_KEY


RACES_MAX = 4
DECIDABLE = (Phase.NEW, Phase.OFFERED, Phase.ANSWERED)


@dataclass(eq=False, repr=False)
class PermitState(MachineState):
    """Permit's state; see the module docstring."""

    sources: InitVar[Sequence[JournalName]]
    config: Config = field(default_factory=Config)
    versions: dict[GangId, int] = field(default_factory=dict)
    timeouts: dict[GangId, PermitTimeout] = field(default_factory=dict)
    attempts: dict[Key, Attempt] = field(default_factory=dict)
    settled: PodSet = field(default_factory=PodSet)
    # Groups, not pods; attempts for them may be under way.
    deleted: PodSet = field(default_factory=PodSet)
    turns: int = 0  # begun so far
    choices: int = 0  # of topology domains so far
    turn: Turn | None = None
    asked_turns: list[AskedTurn] = field(default_factory=list)  # in the order of asking
    # Where counts of wide rules have changed and other shards do not know it.
    changed_shards: list[int] = field(default_factory=list)

    member_of: Derived[dict[PodId, Key]] = field(default_factory=dict)
    undecided: Derived[set[Key]] = field(default_factory=set)
    timers: Derived[list[tuple[int, GangId]]] = field(default_factory=list)

    def __post_init__(self, sources: Sequence[JournalName]) -> None:
        super().__init__(sources)

    def open(self, attempt: Attempt) -> None:
        """Add an attempt."""
        self.attempts[attempt.key] = attempt
        self._index(attempt)

    def _index(self, attempt: Attempt) -> None:
        for _sig, ids in attempt.groups:
            self.member_of.update(dict.fromkeys(ids, attempt.key))
        self.note(attempt)

    def close(self, attempt: Attempt) -> None:
        """Remove an ended attempt."""
        del self.attempts[attempt.key]
        self.undecided.discard(attempt.key)
        if attempt.wide:
            self.asked_turns = [one for one in self.asked_turns if one.of != attempt.key]
        for _sig, ids in attempt.groups:
            for pod in ids:
                if self.member_of.get(pod) == attempt.key:
                    del self.member_of[pod]

    def note(self, attempt: Attempt) -> None:
        """Update `undecided` after a change of the attempt."""
        if attempt.cannot_commit or attempt.phase in DECIDABLE:
            self.undecided.add(attempt.key)
        else:
            self.undecided.discard(attempt.key)

    def set_timeout(self, gang: GangId, timeout: PermitTimeout) -> None:
        """Start or change a permit timeout."""
        self.end_timeout(gang)
        self.timeouts[gang] = timeout
        insort(self.timers, (timeout.due_ms, gang))

    def end_timeout(self, gang: GangId) -> None:
        """End a permit timeout, if it runs."""
        timeout = self.timeouts.pop(gang, None)
        if timeout is not None:
            self.timers.remove((timeout.due_ms, gang))

    def lost_race(self, attempt: Attempt) -> bool:
        """Return whether a failed attempt had offered room taken by others, so that it may retry at
        once.
        """
        timeout = self.timeouts.get(attempt.gang)
        if attempt.cannot_commit or not attempt.plans or timeout is None:
            return False
        return timeout.attempt == attempt.attempt and timeout.races < RACES_MAX

    def taken(self, attempt: Attempt) -> dict[Path, int]:
        """Return how many members of other attempts will be held in which domain after the shards
        answered this attempt.
        """
        found: dict[Path, int] = {}
        for other in self.attempts.values():
            if other.domain is not None and other.chosen_at > attempt.asked_at:
                found[other.domain] = found.get(other.domain, 0) + other.live
        return found

    def excluded(self, attempt: Attempt) -> list[Path]:
        """Return the domains that a gang's next attempt leaves out if this one fails."""
        timeout = self.timeouts.get(attempt.gang)
        before = timeout.excluded if timeout is not None else []
        return before if attempt.domain is None else [*before, attempt.domain]

    def note_excluded(self, attempt: Attempt, stale: bool) -> None:
        """Leave a domain out in which enough members could not be held; all count again after a
        failure.
        """
        timeout = self.timeouts.get(attempt.gang)
        if timeout is not None and timeout.attempt == attempt.attempt:
            is_tried = stale and not attempt.cannot_commit
            timeout.excluded = self.excluded(attempt) if is_tried else []

    def latest(self, gang: GangId) -> Attempt | None:
        """Return the gang's newest open attempt (older ones are stale)."""
        timeout = self.timeouts.get(gang)
        return self.attempts.get((gang, timeout.attempt)) if timeout is not None else None

    def derive(self) -> "PermitState":
        """Compute the derived fields of a loaded state; return it."""
        self.timers = sorted((timeout.due_ms, gang) for gang, timeout in self.timeouts.items())
        for attempt in self.attempts.values():
            self._index(attempt)
        return self
