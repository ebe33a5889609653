"""Gangs under any interleaving: shards answer late, members vanish, groups change, timeouts end.

The shards are a few lines that keep holds by (gang, attempt) and read permit's journal with a lag.
At the end all catch up, and the shards must hold exactly what was committed.
"""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from services.permit.core.core import PermitCore
from shared.events.base import Event
from shared.events.ingest import GangGone, GangSet, PodsAssigned, PodsGone
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked, OfferAsked
from shared.events.placement import GangHeld, GangOffered, GangRefused
from shared.events.queueing import GangDispatched, Members, Minimum
from shared.model.columns import pack, unpack
from tests.support.steps import Steps

TIMEOUT_MS = 50
ENDS = (GangCommitted, GangReleased, GangTimedOut)


def pods_of(event):
    return [unpack(part.ids).tolist() for part in event.members]


@dataclass
class Shard:
    """A shard with room for `room` pods that offers `room + boast`, so that it must refuse at
    times.
    """

    number: int
    room: int
    boast: int = 0
    read: int = 0
    holds: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    charged: set[int] = field(default_factory=set)
    ended: set[tuple[int, int]] = field(default_factory=set)

    def apply(self, event: Event) -> list[Event]:
        match event:
            case OfferAsked():
                left = self.room - len(self.charged) + self.boast
                counts = []
                for ids in pods_of(event):
                    counts.append(max(0, min(left, len(ids))))
                    left -= counts[-1]
                return [GangOffered(self.number, event.gang, event.attempt, tuple(counts))]
            case HoldAsked(shard=self.number):
                return [self.hold(event)]
            case GangCommitted():
                key = (event.gang, event.attempt)
                # A member that was deleted before the hold was asked is held, and not committed.
                self.charged -= set(self.holds.pop(key, ())) - set(unpack(event.ids).tolist())
            case GangReleased() | GangTimedOut():
                self.charged -= set(self.holds.pop((event.gang, event.attempt), ()))
        return []

    def hold(self, event: HoldAsked) -> Event:
        key = (event.gang, event.attempt)
        assert key not in self.holds, "asked twice"
        ids = [pod for part in pods_of(event) for pod in part]
        if len(ids) > self.room - len(self.charged):
            return GangRefused(self.number, *key, (("full", 1),), 1, 0)
        self.holds[key] = ids
        self.charged |= set(ids)
        nodes = pack([self.number] * len(ids))
        return GangHeld(self.number, *key, pack(ids), pack(ids), nodes, b"", 0)

    def out(self, pods: set[int]) -> None:
        """Apply a fact about pods, which no longer belong to permit."""
        self.charged -= pods
        for ids in self.holds.values():
            ids[:] = [pod for pod in ids if pod not in pods]


@dataclass
class Mesh:
    """Permit, its journal, the shards, and what of their answers permit has not read yet."""

    steps: Steps
    shards: list[Shard]
    journal: list[Event] = field(default_factory=list)
    answers: list[list[Event]] = field(default_factory=list)
    dispatched: dict[tuple[int, int], GangDispatched] = field(default_factory=dict)
    out: set[int] = field(default_factory=set)
    next_pod: int = 1

    def turn(self, *events: Event) -> None:
        self.steps.given(*events)
        for event in self.steps.when():
            self.journal.append(event)
            if isinstance(event, GangCommitted):
                self.judge(event)

    def judge(self, event: GangCommitted) -> None:
        """Check a commit: at least minCount pods and those that parts need, all held, none deleted
        or assigned.
        """
        asked = self.dispatched[event.gang, event.attempt]
        ids = unpack(event.ids).tolist()
        assert len(set(ids)) == len(ids) >= asked.min_count
        for one in asked.minimums:
            parts = [unpack(part.ids).tolist() for part in asked.members if part.sig in one.sigs]
            assert len({pod for part in parts for pod in part} & set(ids)) >= one.least
        assert asked.minimums or not asked.minimum_only or len(ids) == asked.min_count
        assert set(ids) <= {pod for part in pods_of(asked) for pod in part} - self.out
        for pod, node in zip(ids, unpack(event.nodes).tolist(), strict=True):
            assert pod in self.shards[node].holds[event.gang, event.attempt]
        assert event.shards == len(set(unpack(event.nodes).tolist()))

    def dispatch(self, gang: int, sizes: list[int], need: int, version: int, least: int) -> None:
        """Dispatch a gang; at least so many members of its last signature are needed."""
        if any(key[0] == gang for key in self.steps.state.attempts):
            return
        groups = []
        for sig, size in enumerate(sizes, start=1):
            groups.append(Members(sig, pack(range(self.next_pod, self.next_pod + size))))
            self.next_pod += size
        attempt = len(self.dispatched) + 1
        minimums = (Minimum(least, (len(sizes),)),) if least else ()
        event = GangDispatched(
            *(attempt, gang, version, need, tuple(groups), TIMEOUT_MS), minimums=minimums
        )
        event = replace(event, minimum_only=attempt % 3 == 0)
        self.dispatched[gang, attempt] = event
        self.turn(event)

    def shard_reads(self, number: int) -> None:
        shard = self.shards[number]
        if shard.read < len(self.journal):
            event = self.journal[shard.read]
            shard.read += 1
            self.answers[number].extend(shard.apply(event))

    def permit_reads(self, number: int) -> None:
        if self.answers[number]:
            self.turn(self.answers[number].pop(0))

    def facts(self, pods: set[int], assigned: bool) -> None:
        if not pods:
            return
        self.out |= pods
        for shard in self.shards:
            shard.out(pods)
        ids = pack(sorted(pods))
        self.turn(PodsAssigned(0, ids, ids, ids) if assigned else PodsGone(ids))

    def settle(self) -> None:
        """Let every journal's readers catch up; then the permit timeouts end."""
        for _round in range(2):
            while any(self.answers) or any(s.read < len(self.journal) for s in self.shards):
                for number in range(len(self.shards)):
                    self.shard_reads(number)
                    self.permit_reads(number)
            self.steps.at(self.steps.state.now_ms + TIMEOUT_MS)
            self.turn()


ACTIONS = st.one_of(
    st.tuples(
        st.just("dispatch"),
        st.integers(1, 3),
        st.lists(st.integers(1, 4), min_size=1, max_size=2),
        st.integers(1, 4),
        st.integers(1, 2),
        st.integers(0, 2),
    ),
    st.tuples(st.just("gone"), st.sets(st.integers(0, 9), min_size=1, max_size=2), st.booleans()),
    st.tuples(st.just("set"), st.integers(1, 3), st.integers(1, 2)),
    st.tuples(st.just("group gone"), st.integers(1, 3)),
    st.tuples(st.just("time"), st.integers(1, TIMEOUT_MS)),
    st.tuples(st.just("reload")),
)


MOVES = st.one_of(
    st.tuples(st.just("shard"), st.integers(0, 2)),
    st.tuples(st.just("permit"), st.integers(0, 2)),
)
# Mostly moves: an attempt needs several to get anywhere before something happens to it.
SCHEDULES = st.lists(st.one_of(MOVES, MOVES, ACTIONS), min_size=25, max_size=60)


def act(mesh: Mesh, action: tuple) -> None:
    match action:
        case ("dispatch", gang, sizes, need, version, least):
            mesh.dispatch(gang, sizes, need, version, least)
        case ("shard", number):
            mesh.shard_reads(number % len(mesh.shards))
        case ("permit", number):
            mesh.permit_reads(number % len(mesh.shards))
        case ("gone", pods, assigned):
            # Members of open attempts, and the next ones: facts may come before the dispatch.
            members = [*sorted(mesh.steps.state.member_of), mesh.next_pod, mesh.next_pod + 1]
            mesh.facts({members[pod % len(members)] for pod in pods} - mesh.out, assigned)
        case ("set", gang, version):
            mesh.turn(GangSet(gang, "a/b", 1, TIMEOUT_MS, version))
        case ("group gone", gang):
            mesh.turn(GangGone(gang))
        case ("time", passed_ms):
            mesh.steps.at(mesh.steps.state.now_ms + passed_ms)
            mesh.turn()
        case ("reload",):
            mesh.steps.reload()


def run(rooms: list[tuple[int, int]], actions: list[tuple], *, reloads: bool) -> Mesh:
    shards = [Shard(number, room, boast) for number, (room, boast) in enumerate(rooms)]
    mesh = Mesh(Steps(PermitCore(len(rooms))), shards, answers=[[] for _ in rooms])
    for action in actions:
        if reloads or action != ("reload",):
            act(mesh, action)
    mesh.settle()
    return mesh


ROOMS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=3)


@settings(max_examples=200)
@given(ROOMS, SCHEDULES)
def test_every_hold_is_committed_or_released(rooms, actions):
    mesh = run(rooms, actions, reloads=False)
    ends = [(event.gang, event.attempt) for event in mesh.journal if isinstance(event, ENDS)]
    committed: set[int] = set()
    for event in mesh.journal:
        if isinstance(event, GangCommitted):
            committed |= set(unpack(event.ids).tolist())
    assert mesh.steps.state.attempts == {}
    assert set(mesh.dispatched) <= set(ends)
    for shard in mesh.shards:
        assert shard.holds == {}
        assert shard.charged <= committed
        assert len(shard.charged) <= shard.room
    assert {pod for shard in mesh.shards for pod in shard.charged} == committed - mesh.out


@settings(max_examples=200)
@given(ROOMS, SCHEDULES)
def test_an_attempt_ends_once_unless_its_permit_timeout_ends_later(rooms, actions):
    mesh = run(rooms, actions, reloads=False)
    done: set[tuple[int, int]] = set()
    for event in mesh.journal:
        if isinstance(event, GangCommitted | GangReleased):
            assert (event.gang, event.attempt) not in done
            done.add((event.gang, event.attempt))
        elif isinstance(event, HoldAsked | OfferAsked):
            assert (event.gang, event.attempt) not in done


@settings(max_examples=200)
@given(ROOMS, SCHEDULES)
def test_a_loaded_state_continues_identically(rooms, actions):
    plain = run(rooms, actions, reloads=False)
    reloaded = run(rooms, actions, reloads=True)
    assert plain.journal == reloaded.journal
    assert plain.steps.dumped() == reloaded.steps.dumped()
