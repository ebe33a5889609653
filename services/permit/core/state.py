"""What permit knows: open attempts of gangs, their gates, and which pods are out of play.

Three parts are derived from the rest and never dumped: who is a member of what, which attempts
have something to decide, and the gates in order of their time.
"""

from bisect import insort
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from services.permit.core.config import Config
from services.permit.core.transitions import Phase, following
from shared.machine.core import MachineState
from shared.model.objects import PodSpec
from shared.model.podset import PodSet

Key = tuple[int, int]
"""(gang, attempt)"""
Reasons = tuple[tuple[str, int], ...]


class ShardWord(Struct, array_like=True):
    """A shard's latest word on an attempt: what it could take of each group, and why not more."""

    counts: tuple[int, ...]
    reasons: Reasons
    nodes: int


class Hold(Struct, frozen=True, gc=False, array_like=True):
    """A member's place, charged in the shard's ledger until this journal says otherwise."""

    node: int
    shard: int


class Gate(Struct, array_like=True):
    """The time a gang has from its first attempt on, kept until it commits or time is over.
    `races`: attempts within it that others took the offered room from.
    """

    start_ms: int
    timeout_ms: int
    attempt: int
    races: int = 0

    @property
    def due_ms(self) -> int:
        """When everything is given back."""
        return self.start_ms + self.timeout_ms


class Attempt(Struct, array_like=True):
    """One try of one gang. `groups` are the members still in play, (signature, ids) in order;
    `asked` maps a shard to what the plan asked of it, `waiting` are those not answered yet. `shown`
    are members at whose bind somebody acts, by the first of them, `with_volumes` those for which
    volumes were chosen. `preempts` as it was sent, `preemptible`: a shard said that it may help.
    """

    gang: int
    attempt: int
    version: int
    min_count: int
    groups: list[tuple[int, list[int]]]
    phase: Phase = Phase.NEW
    plans: int = 0
    stale: bool = False
    words: dict[int, ShardWord] = {}
    asked: dict[int, list[int]] = {}
    waiting: list[int] = []
    held: dict[int, Hold] = {}
    shown: list[tuple[list[int], PodSpec]] = []
    with_volumes: list[int] = []
    preempts: bool = False
    preemptible: bool = False

    @property
    def key(self) -> Key:
        """What holds of this attempt are known by."""
        return (self.gang, self.attempt)

    @property
    def live(self) -> int:
        """Members that are still in play."""
        return sum(len(ids) for _sig, ids in self.groups)

    @property
    def broken(self) -> bool:
        """It cannot commit any more, whatever the shards answer."""
        return self.stale or self.live < self.min_count

    @property
    def enough(self) -> bool:
        """Everything asked is answered, and it suffices."""
        return self.phase is Phase.ANSWERED and len(self.held) >= self.min_count

    def follow(self, event: str) -> None:
        """Take the transition of `event`; AssertionError with the story when there is none."""
        story = (
            f"gang {self.gang} attempt {self.attempt} version {self.version}, plan {self.plans}, "
            f"{len(self.held)} of {self.live} members held, {self.min_count} needed"
        )
        self.phase = following(self.phase, event, story)

    def drop(self, pod: int) -> None:
        """The pod is no member any more (gone, or it got a node without us)."""
        for _sig, ids in self.groups:
            if pod in ids:
                ids.remove(pod)
        self.held.pop(pod, None)

    def dump(self) -> list[Any]:
        """Plain values in an order that does not depend on the order of answers."""
        plain: list[Any] = msgspec.to_builtins(self)
        if not self.preempts:
            del plain[-2:]  # as in older snapshots
        return [
            sorted(value.items()) if isinstance(value, dict) else value
            for value in [*plain[:_WAITING], sorted(self.waiting), *plain[_WAITING + 1 :]]
        ]

    @classmethod
    def load(cls, plain: list[Any]) -> "Attempt":
        """Inverse of dump; old ones lack the last fields."""
        columns = [
            dict(value) if name in _BY_NUMBER else value
            for name, value in zip(cls.__struct_fields__, plain, strict=False)
        ]
        return msgspec.convert(columns, cls)


_WAITING = Attempt.__struct_fields__.index("waiting")
_BY_NUMBER = {"words", "asked", "held"}
RACES_MAX = 4
DECIDABLE = (Phase.NEW, Phase.OFFERED, Phase.ANSWERED)


class PermitState(MachineState):
    """See the module's first lines."""

    def __init__(self, sources: Sequence[str]) -> None:
        """No gangs."""
        super().__init__(sources)
        self.config = Config()
        self.versions: dict[int, int] = {}
        self.gates: dict[int, Gate] = {}
        self.attempts: dict[Key, Attempt] = {}
        self.settled = PodSet()
        self.deleted = PodSet()  # groups, not pods; attempts at them may be on their way
        self.member_of: dict[int, Key] = {}
        self.todo: set[Key] = set()
        self.timers: list[tuple[int, int]] = []

    def open(self, attempt: Attempt) -> None:
        """Take an attempt in."""
        self.attempts[attempt.key] = attempt
        for _sig, ids in attempt.groups:
            self.member_of.update(dict.fromkeys(ids, attempt.key))
        self.note(attempt)

    def close(self, attempt: Attempt) -> None:
        """Forget an attempt that came to its end."""
        del self.attempts[attempt.key]
        self.todo.discard(attempt.key)
        for _sig, ids in attempt.groups:
            for pod in ids:
                if self.member_of.get(pod) == attempt.key:
                    del self.member_of[pod]

    def note(self, attempt: Attempt) -> None:
        """Keep `todo` true after a change of the attempt."""
        if attempt.broken or attempt.phase in DECIDABLE:
            self.todo.add(attempt.key)
        else:
            self.todo.discard(attempt.key)

    def set_gate(self, gang: int, gate: Gate) -> None:
        """Start a gate or change it."""
        self.end_gate(gang)
        self.gates[gang] = gate
        insort(self.timers, (gate.due_ms, gang))

    def end_gate(self, gang: int) -> None:
        """Stop a gate's clock, if it runs."""
        gate = self.gates.pop(gang, None)
        if gate is not None:
            self.timers.remove((gate.due_ms, gang))

    def raced(self, attempt: Attempt) -> bool:
        """Whether an attempt that came to nothing was offered room, and may at once try again."""
        gate = self.gates.get(attempt.gang)
        if attempt.broken or not attempt.plans or gate is None:
            return False
        return gate.attempt == attempt.attempt and gate.races < RACES_MAX

    def latest(self, gang: int) -> Attempt | None:
        """The gang's open attempt that counts (older ones are stale already)."""
        gate = self.gates.get(gang)
        return self.attempts.get((gang, gate.attempt)) if gate is not None else None

    def dump(self) -> Any:
        """See Core.dump."""
        return [
            msgspec.to_builtins(self.config),
            sorted(self.versions.items()),
            [[gang, msgspec.to_builtins(gate)] for gang, gate in sorted(self.gates.items())],
            [attempt.dump() for _key, attempt in sorted(self.attempts.items())],
            self.settled.dump(),
            self.deleted.dump(),
        ]

    def restore(self, body: Any) -> None:
        """Become what `body` was made of."""
        config, versions, gates, attempts, settled, *more = body
        self.config = msgspec.convert(config, Config)
        self.versions = dict(versions)
        for gang, gate in gates:
            self.set_gate(gang, msgspec.convert(gate, Gate))
        self.settled = PodSet.load(settled)
        # Older snapshots have none.
        self.deleted = PodSet.load(more[0] if more else b"")
        for attempt in attempts:
            self.open(Attempt.load(attempt))
