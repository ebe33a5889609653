"""Preemption's state: open asks, leaving victims, budgets, and pods that need nothing any more.

Derived: asks by pod, asks with something to decide, asks that search, and the
order of the times by which victims must be gone.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Sequence
from dataclasses import InitVar, dataclass, field

from msgspec import Struct

from services.preemption.core.budgets import Budgets
from services.preemption.core.config import Config
from services.preemption.core.gang_ask import GangAsk
from services.preemption.core.transitions import GangPhase, Phase, following
from shared.events.placement import CandidatesFound
from shared.events.preemption import SpareMembers
from shared.machine.core import MachineState
from shared.machine.saved import Derived
from shared.model.cluster_objects import Queue
from shared.model.ids import NO_ASK, NO_NODE, AskId, GangId, JournalName, NodeId, PodId, SignatureId
from shared.model.podset import PodSet
from shared.model.preemption.queue_limits import Guarantees, Sums
from shared.model.preemption.units import Units
from shared.model.release import V1_37

LEFT = "the preemptor is gone or has a node"
LOST = "the nomination is lost"
FAILED = "an eviction failed"
FREED = "a victim left by itself"
SUPERSEDED = "asked again"


class Victim(Struct):
    """A victim of `ask`; it belongs to no other ask until it is deleted or cannot be evicted."""

    ask: AskId
    evicted: bool = False


class QueueSig(Struct, frozen=True):
    """What a pod of a signature uses of its queue (shared.model.queues.amounts)."""

    queue: str
    amounts: tuple[tuple[str, int], ...]


class Ask(Struct):
    """One search for victims for one pod. `end` says why it must be closed; empty while it is open.

    `allowances`: the budgets' allowances when the shards were asked, until a choice is made.
    `spare`: likewise of the groups that keep their minimum. `beyond`: victims that their budgets
    did not allow at the choice. `node_name`: the chosen node, if the pod's message names it.
    `nominated`: a shard may hold a charge for it. `gang_ask`: the ask of its gang, if it is a
    member's. `queue`, `amounts`, `claims`: as in PreemptAsked.
    """

    ask: AskId
    pod: PodId
    sig: SignatureId
    phase: Phase = Phase.NEW
    rounds: int = 0
    allowances: dict[int, int] = {}
    found: dict[int, CandidatesFound] = {}
    shard: int = -1
    node: NodeId = NO_NODE
    victims: list[PodId] = []
    nominated: bool = False
    end: str = ""
    due_ms: int = 0
    gang_ask: AskId = NO_ASK
    priority: int = 0
    beyond: list[PodId] = []
    node_name: str = ""
    spare: dict[GangId, int] = {}
    claims: bool = False
    queue: str = ""
    amounts: tuple[tuple[str, int], ...] = ()

    def follow(self, event: str) -> None:
        """Apply the transition of `event`. Raises AssertionError with the story if
        there is none.
        """
        self.phase = following(self.phase, event, self)

    def __str__(self) -> str:
        """Return the text for assertions."""
        return (
            f"ask {self.ask} for pod {self.pod}, round {self.rounds}, node {self.node} of shard "
            f"{self.shard}, victims {self.victims}"
        )

    def answers(self) -> list[CandidatesFound]:
        """Return the shards' answers, by shard."""
        return [self.found[shard] for shard in sorted(self.found)]


class Run(Struct):
    """A dry run for several asks, with the shards' answers so far."""

    asks: list[AskId]
    found: dict[int, CandidatesFound] = {}


def _turn(ask: Ask) -> tuple[int, AskId]:
    return -ask.priority, ask.ask


@dataclass(eq=False, repr=False)
class PreemptionState(MachineState):
    """Preemption's state; see the module docstring."""

    sources: InitVar[Sequence[JournalName]]
    config: Config = field(default_factory=Config)
    last_ask: int = 0
    fruitless_dry_runs: int = 0  # dry runs since the last one that led to a choice
    asks: dict[AskId, Ask] = field(default_factory=dict)
    runs: dict[AskId, Run] = field(default_factory=dict)  # by the first of their asks
    gang_asks: dict[AskId, GangAsk] = field(default_factory=dict)
    gang_evictions: dict[GangId, list[PodId]] = field(default_factory=dict)  # to be asked for
    victims: dict[PodId, Victim] = field(default_factory=dict)
    budgets: Budgets = field(default_factory=Budgets)
    units: Units = field(default_factory=Units)
    gone: PodSet = field(default_factory=PodSet)
    placed: PodSet = field(default_factory=PodSet)  # deleted pods are in both
    queues: tuple[Queue, ...] = ()
    queue_sigs: dict[SignatureId, QueueSig] = field(default_factory=dict)
    queue_pods: dict[PodId, SignatureId] = field(default_factory=dict)  # on nodes, in a queue

    guarantees: Derived[Guarantees] = field(default_factory=Guarantees)
    used: Derived[Sums] = field(default_factory=dict)  # with a guarantee: by queue and resource
    by_pod: Derived[dict[PodId, AskId]] = field(default_factory=dict)
    # Have something to decide, whatever others do; want a dry run or a choice, in turn; being
    # searched by shards or extenders.
    undecided: Derived[set[AskId]] = field(default_factory=set)
    search_queue: Derived[set[AskId]] = field(default_factory=set)
    searching: Derived[set[AskId]] = field(default_factory=set)
    timers: Derived[list[tuple[int, AskId]]] = field(default_factory=list)

    def __post_init__(self, sources: Sequence[JournalName]) -> None:
        super().__init__(sources)

    def open(self, ask: Ask) -> None:
        """Add an ask."""
        self.asks[ask.ask] = ask
        self._index(ask)

    def _index(self, ask: Ask) -> None:
        if ask.end != SUPERSEDED:
            self.by_pod[ask.pod] = ask.ask
        if ask.due_ms:
            insort(self.timers, (ask.due_ms, ask.ask))
        self.note(ask)

    def close(self, ask: Ask) -> None:
        """Remove an ask. Its victims stay claimed while an eviction may be under way."""
        self.set_due(ask, 0)
        del self.asks[ask.ask]
        self._forget(ask.ask)
        if self.by_pod.get(ask.pod) == ask.ask:
            del self.by_pod[ask.pod]
        if ask.gang_ask:
            self._end_member(self.gang_asks[ask.gang_ask], ask)

    def _end_member(self, gang_ask: GangAsk, ask: Ask) -> None:
        """End a member's ask and with it the gang's: a gang keeps all its places or none."""
        gang_ask.asks.remove(ask.ask)
        if not gang_ask.needs_new_round:  # else another round follows
            gang_ask.end = gang_ask.end or ask.end or LOST
        for number in gang_ask.asks:
            if not self.asks[number].end:
                self.finish(self.asks[number], LOST)
        if not gang_ask.asks and gang_ask.needs_new_round:
            gang_ask.follow("given_back")
            gang_ask.needs_new_round, gang_ask.open_shards = False, []

    def note(self, ask: Ask) -> None:
        """Update `undecided`, `search_queue` and `searching` after a change of the ask. No victim
        is evicted for a gang before all members have their places.
        """
        number, phase = ask.ask, ask.phase
        is_early = ask.gang_ask and self.gang_asks[ask.gang_ask].phase is GangPhase.NOMINATING
        self._forget(number)
        if ask.end or (phase is Phase.NOMINATED and not is_early):
            self.undecided.add(number)
        elif phase is Phase.NEW or phase is Phase.ANSWERED:
            self.search_queue.add(number)
        elif phase is Phase.DRY_RUN or phase is Phase.ASKING_EXTENDERS:
            self.searching.add(number)

    def _forget(self, number: AskId) -> None:
        self.undecided.discard(number)
        self.search_queue.discard(number)
        self.searching.discard(number)

    def in_turn(self) -> list[Ask]:
        """Return the asks of the search queue by priority, then arrival."""
        return sorted((self.asks[number] for number in self.search_queue), key=_turn)

    def finish(self, ask: Ask, why: str) -> None:
        """Mark an ask to be closed; the first reason counts."""
        ask.end = ask.end or why
        self.note(ask)

    def set_due(self, ask: Ask, due_ms: int) -> None:
        """Set the deadline of an ask, ms; 0: none."""
        if ask.due_ms:
            del self.timers[bisect_left(self.timers, (ask.due_ms, ask.ask))]
        ask.due_ms = due_ms
        if due_ms:
            insort(self.timers, (due_ms, ask.ask))

    def claim_victims(self, ask: Ask, victims: Sequence[PodId]) -> None:
        """Claim victims for an ask."""
        ask.victims = [pod for pod in victims if pod not in self.gone]
        ask.beyond = self.budgets.beyond(ask.victims)
        for pod in ask.victims:
            assert pod not in self.victims, f"ask {ask.ask} and {self.victims[pod].ask} share {pod}"
            self.victims[pod] = Victim(ask.ask)
            self.budgets.charge(pod)

    def mates_to_evict(self, ask: Ask) -> list[PodId]:
        """Return the pods that must leave with the ask's victims, and are not leaving yet."""
        leaving = {pod for pod in self.victims if self._is_leaving(pod)} if self.units else set()
        return [pod for pod in self._mates(ask.victims, leaving) if pod not in leaving]

    def _is_leaving(self, pod: PodId) -> bool:
        """Return whether the pod's eviction was asked for."""
        owner = self.victims.get(pod)
        if owner is None:
            return False
        ask = self.asks.get(owner.ask)
        return ask is None or ask.phase not in (Phase.NOMINATING, Phase.NOMINATED)

    def claim_mates(self, ask: Ask, mates: Sequence[PodId]) -> None:
        """Claim pods that leave with the victims of an ask, also from asks that only want them."""
        for pod in mates:
            if pod in self.victims:
                owner = self.asks[self.victims[pod].ask]
                self.release_victims(owner.ask, [pod])
                owner.victims.remove(pod)
        victims, beyond = ask.victims, ask.beyond
        self.claim_victims(ask, mates)
        ask.victims, ask.beyond = [*victims, *ask.victims], [*beyond, *ask.beyond]

    def mates(self, victims: Sequence[PodId]) -> list[PodId]:
        """Return the pods on nodes that leave with these, as they are of one preemption unit."""
        return self._mates(victims, self.victims)

    def _mates(self, victims: Sequence[PodId], leaving: Collection[PodId]) -> list[PodId]:
        if not self.units:
            return []
        return [pod for pod in self.units.leave_with(victims, leaving) if pod in self.placed]

    def spare_members(self) -> tuple[SpareMembers, ...]:
        """Return how many more pods may leave each group that keeps its minimum."""
        return tuple(SpareMembers(gang, left) for gang, left in self.units.spare(self.victims))

    def is_taken(self, victims: Sequence[PodId]) -> bool:
        """Return whether one of these, or a pod that leaves with it, leaves already."""
        return any(pod in self.victims for pod in (*victims, *self.mates(victims)))

    def taken(self) -> list[PodId]:
        """Return the victims and those that leave with them, ascending."""
        victims = sorted(self.victims)
        return sorted([*victims, *self.mates(victims)])

    def release_victims(self, ask: AskId, victims: Sequence[PodId]) -> None:
        """Release victims of an ask."""
        for pod in victims:
            victim = self.victims.get(pod)
            if victim is not None and victim.ask == ask:
                del self.victims[pod]
                self.budgets.release(pod)

    def eviction_accepted(self) -> dict[PodId, bool]:
        """Return victims still there -> whether the API accepted their eviction."""
        return {pod: victim.evicted for pod, victim in self.victims.items()}

    def has_open_eviction(self, ask: Ask) -> bool:
        """Return whether an eviction of this ask has no answer yet."""
        found = (self.victims.get(pod) for pod in ask.victims)
        return any(one is not None and one.ask == ask.ask and not one.evicted for one in found)

    def derive(self) -> "PreemptionState":
        """Compute the derived fields of a loaded state; return it."""
        self.configure(self.config)
        self.units.place(pod for pod in self.units.pods() if pod in self.placed)
        for ask in self.asks.values():
            self._index(ask)
        return self

    def configure(self, config: Config) -> None:
        """Apply the options."""
        self.config = config
        self.budgets.counts_all = config.compatibility < V1_37
