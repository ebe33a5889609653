"""What preemption knows: open asks, every victim on its way out, budgets, and who is out of play.

Derived from the rest and never dumped: asks by pod, asks with something to decide, those that
search, and the order of the times by which victims must be gone.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from services.preemption.core.budgets import Budgets
from services.preemption.core.config import Config
from services.preemption.core.gang_ask import Band
from services.preemption.core.transitions import GangPhase, Phase, following
from shared.events.placement import CandidatesFound
from shared.machine.core import MachineState
from shared.model.podset import PodSet

LEFT = "the preemptor is gone or has a node"
LOST = "the nomination is lost"
FAILED = "an eviction failed"
FREED = "a victim left by itself"
SUPERSEDED = "asked again"


class Victim(Struct, array_like=True):
    """A pod chosen to go for `ask`; shared by nobody until it is gone or cannot be evicted."""

    ask: int
    evicted: bool = False


class Ask(Struct, array_like=True):
    """One search for victims for one pod. `end` says why it must be closed, "" while it goes on.

    `lefts` is what the budgets allowed when the shards were asked, until a choice is made;
    `nominated` says that a shard may hold a charge for it. `band`: it is a member's, of the gang
    that has this ask.
    """

    ask: int
    pod: int
    sig: int
    phase: Phase = Phase.NEW
    rounds: int = 0
    lefts: dict[int, int] = {}
    found: dict[int, CandidatesFound] = {}
    shard: int = -1
    node: int = 0
    victims: list[int] = []
    nominated: bool = False
    end: str = ""
    due_ms: int = 0
    band: int = 0
    priority: int = 0

    def follow(self, event: str) -> None:
        """Take the transition of `event`; AssertionError with the story when there is none."""
        self.phase = following(self.phase, event, self)

    def __str__(self) -> str:
        """What an assertion says about it."""
        return (
            f"ask {self.ask} for pod {self.pod}, round {self.rounds}, node {self.node} of shard "
            f"{self.shard}, victims {self.victims}"
        )

    def answers(self) -> list[CandidatesFound]:
        """What the shards found, by shard."""
        return [self.found[shard] for shard in sorted(self.found)]

    def dump(self) -> list[Any]:
        """Plain values in an order that does not depend on the order of answers."""
        plain: list[Any] = msgspec.to_builtins(self, builtin_types=(bytes,))
        return [sorted(value.items()) if isinstance(value, dict) else value for value in plain]

    @classmethod
    def load(cls, plain: list[Any]) -> "Ask":
        """Inverse of dump; older ones kept `lefts` to the end, and had no band and no priority."""
        columns = [
            dict(value) if name in _BY_NUMBER else value
            for name, value in zip(cls.__struct_fields__, plain, strict=False)
        ]
        ask = msgspec.convert(columns, cls)
        if ask.phase not in ASKED:
            ask.lefts = {}
        return ask


class Run(Struct, array_like=True):
    """A dry run for several asks, and what the shards found so far."""

    asks: list[int]
    found: dict[int, CandidatesFound] = {}

    def dump(self) -> list[Any]:
        """Plain values, in a fixed order."""
        plain: dict[int, Any] = msgspec.to_builtins(self.found, builtin_types=(bytes,))
        return [self.asks, sorted(plain.items())]

    @classmethod
    def load(cls, plain: list[Any]) -> "Run":
        """Inverse of dump."""
        asks, found = plain
        return cls(asks, msgspec.convert(dict(found), dict[int, CandidatesFound]))


_BY_NUMBER = {"lefts", "found"}
ASKED = (Phase.DRY_RUN, Phase.ANSWERED, Phase.JUDGING)


def _turn(ask: Ask) -> tuple[int, int]:
    return -ask.priority, ask.ask


class PreemptionState(MachineState):
    """See the module's first lines."""

    def __init__(self, sources: Sequence[str]) -> None:
        """Nobody asked yet."""
        super().__init__(sources)
        self.config = Config()
        self.last_ask = 0
        self.in_vain = 0  # dry runs since one by which somebody was chosen
        self.asks: dict[int, Ask] = {}
        self.runs: dict[int, Run] = {}  # by the first of their asks
        self.bands: dict[int, Band] = {}
        self.victims: dict[int, Victim] = {}
        self.budgets = Budgets()
        self.gone = PodSet()
        self.placed = PodSet()  # those that are gone are in both
        self.by_pod: dict[int, int] = {}
        self.todo: set[int] = set()  # something is to be decided, whatever others do
        self.line: set[int] = set()  # want a dry run or a choice, when it is their turn
        self.asking: set[int] = set()  # it is their turn: shards or extenders are to answer
        self.timers: list[tuple[int, int]] = []

    def open(self, ask: Ask) -> None:
        """Take an ask in."""
        self.asks[ask.ask] = ask
        if ask.end != SUPERSEDED:
            self.by_pod[ask.pod] = ask.ask
        if ask.due_ms:
            insort(self.timers, (ask.due_ms, ask.ask))
        self.note(ask)

    def close(self, ask: Ask) -> None:
        """Forget an ask. Its victims stay taken while an eviction of theirs may be under way."""
        self.set_due(ask, 0)
        del self.asks[ask.ask]
        self._forget(ask.ask)
        if self.by_pod.get(ask.pod) == ask.ask:
            del self.by_pod[ask.pod]
        if ask.band:
            self._member_over(self.bands[ask.band], ask)

    def _member_over(self, band: Band, ask: Ask) -> None:
        """A gang keeps all its places or none: with one member's ask all of them are over."""
        band.asks.remove(ask.ask)
        if not band.is_again:  # else another round follows
            band.end = band.end or ask.end or LOST
        for number in band.asks:
            self.finish(self.asks[number], LOST)
        if not band.asks and band.is_again:
            band.follow("given_back")
            band.is_again, band.waiting = False, []

    def note(self, ask: Ask) -> None:
        """Keep `todo`, `line` and `asking` true after a change of the ask. Of a gang nobody goes
        before all members have their places.
        """
        number, phase = ask.ask, ask.phase
        is_early = ask.band and self.bands[ask.band].phase is GangPhase.NOMINATING
        self._forget(number)
        if ask.end or (phase is Phase.NOMINATED and not is_early):
            self.todo.add(number)
        elif phase is Phase.NEW or phase is Phase.ANSWERED:
            self.line.add(number)
        elif phase is Phase.DRY_RUN or phase is Phase.JUDGING:
            self.asking.add(number)

    def _forget(self, number: int) -> None:
        self.todo.discard(number)
        self.line.discard(number)
        self.asking.discard(number)

    def in_turn(self) -> list[Ask]:
        """Those in line, first come first served of equal priority."""
        return sorted((self.asks[number] for number in self.line), key=_turn)

    def finish(self, ask: Ask, why: str) -> None:
        """It must be closed; the first reason counts."""
        ask.end = ask.end or why
        self.note(ask)

    def set_due(self, ask: Ask, due_ms: int) -> None:
        """By when something must have happened; 0 = no such time."""
        if ask.due_ms:
            del self.timers[bisect_left(self.timers, (ask.due_ms, ask.ask))]
        ask.due_ms = due_ms
        if due_ms:
            insort(self.timers, (due_ms, ask.ask))

    def take(self, ask: Ask, victims: Sequence[int]) -> None:
        """These victims belong to this ask from now on."""
        ask.victims = [pod for pod in victims if pod not in self.gone]
        for pod in ask.victims:
            assert pod not in self.victims, f"ask {ask.ask} and {self.victims[pod].ask} share {pod}"
            self.victims[pod] = Victim(ask.ask)
            self.budgets.charge(pod)

    def give_back(self, ask: int, victims: Sequence[int]) -> None:
        """These are no victims of this ask after all."""
        for pod in victims:
            victim = self.victims.get(pod)
            if victim is not None and victim.ask == ask:
                del self.victims[pod]
                self.budgets.give_back(pod)

    def evicted(self) -> dict[int, bool]:
        """Victims still there, with whether the API accepted their eviction."""
        return {pod: victim.evicted for pod, victim in self.victims.items()}

    def unanswered(self, ask: Ask) -> bool:
        """Whether an eviction of this ask has no answer yet."""
        found = (self.victims.get(pod) for pod in ask.victims)
        return any(one is not None and one.ask == ask.ask and not one.evicted for one in found)

    def dump(self) -> Any:
        """See Core.dump."""
        return [
            msgspec.to_builtins(self.config),
            self.last_ask,
            [ask.dump() for _number, ask in sorted(self.asks.items())],
            [[pod, one.ask, one.evicted] for pod, one in sorted(self.victims.items())],
            self.budgets.dump(),
            self.gone.dump(),
            self.placed.dump(),
            [[number, *run.dump()] for number, run in sorted(self.runs.items())],
            [band.dump() for _number, band in sorted(self.bands.items())],
            self.in_vain,
        ]

    def restore(self, body: Any) -> None:
        """Become what `body` was made of."""
        config, self.last_ask, asks, victims, budgets, gone, placed, *more = body
        self.config = msgspec.convert(config, Config)
        lacking: list[Any] = [[], [], 0]  # in older snapshots
        runs, bodies, self.in_vain = more + lacking[len(more) :]
        bands = [Band.load(band) for band in bodies]
        self.bands = {band.ask: band for band in bands}
        for ask in asks:
            self.open(Ask.load(ask))
        self.victims = {pod: Victim(ask, evicted) for pod, ask, evicted in victims}
        self.budgets = Budgets.load(budgets)
        self.gone = PodSet.load(gone)
        self.placed = PodSet.load(placed)
        self.runs = {number: Run.load(run) for number, *run in runs}
