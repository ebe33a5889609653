"""Gangs with a topology beside an exhaustive search: random small clusters, played through the
cores of permit and placement. The level must be the same, and no gang is refused that fits.

The search places members in every order on every node. It has its own few lines for each rule.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from services.permit.core.core import PermitCore
from shared.events.permit import GangCommitted, GangReleased
from shared.events.placement import GangHeld, GangOffered, GangRefused, Reserved
from shared.events.queueing import GangDispatched, Members
from shared.model.columns import pack, unpack
from shared.model.groups.topology import Topology
from shared.model.objects import (
    HOSTNAME,
    GpuRequest,
    HostPort,
    Node,
    PodSpec,
    PodTerm,
    Requirement,
    SpreadConstraint,
)
from tests.parity.planted.patching import planted
from tests.simulation.bugs.topology import BY_THE_SEARCH
from tests.simulation.planted import IS_LONG, Bug
from tests.support.steps import Steps
from tests.unit.placement.shard import Shard, node

CASES = 2_000 if IS_LONG else 200
MISSED_MAX = 0.005
GANG, ATTEMPTS_MAX = 1, 12
WEB = (Requirement("app", "In", ("web",)),)
LEVELS = (
    Topology(("rack",)),
    Topology(("rack",), 0, -1),
    Topology(("block", "rack"), 1, 0),
    Topology(("block", "rack"), 1, -1),
    Topology(("block",)),
    Topology(("zone", "block", "rack"), 2, 0),
    Topology(("zone", "block", "rack"), 2, -1),
)
DEVICE_MILLI = 1_000


@dataclass(frozen=True)
class Kind:
    """Pods of one spec. `rule`: apart or spread, and the label over which."""

    cpu_milli: int
    app: str = "web"
    port: bool = False
    gpu_milli: int = 0
    rule: str = ""
    key: str = ""

    def spec(self) -> PodSpec:
        """Return it as the product knows it."""
        is_apart = self.rule == "apart"
        return PodSpec(
            requests=(("cpu", self.cpu_milli),),
            nonzero_cpu_milli=self.cpu_milli,
            namespace="default",
            labels=(("app", self.app),),
            host_ports=(HostPort(80),) if self.port else (),
            gpu=GpuRequest(self.gpu_milli, 1) if self.gpu_milli else None,
            pod_anti_affinity=(PodTerm(self.key, WEB),) if is_apart else (),
            spread=(SpreadConstraint(self.key, 1, selector=WEB),) if self.rule == "spread" else (),
        )


Placed = tuple[int, Kind, int]
"""(node, kind, device)"""


@dataclass
class Case:
    """A cluster and a gang: `counts` members of each kind, of which `least` must fit. `first` of
    the first kind run before the others come.
    """

    seed: int
    nodes: list[Node]
    standing: list[Kind]
    kinds: list[Kind]
    counts: list[int]
    least: int
    first: int
    topology: Topology
    found: list[Placed] = field(default_factory=list)  # what stands there, once it is placed
    homes: list[int] = field(default_factory=list)


def make_case(seed: int) -> Case:
    """Return a random case."""
    rng = random.Random(f"{seed}/search")
    nodes = [_node(number, rng) for number in range(rng.randint(2, 8))]
    kinds = [_kind(rng) for _ in range(rng.choice((1, 1, 2)))]
    counts = [rng.randint(1, 6 // len(kinds)) for _ in kinds]
    standing = [_standing(rng) for _ in range(rng.randint(0, 5))]
    first = rng.choice((0, 0, 0, 1)) if counts[0] > 1 else 0
    least = rng.randint(1, sum(counts) - first)
    return Case(seed, nodes, standing, kinds, counts, least, first, rng.choice(LEVELS))


def _node(number: int, rng: random.Random) -> Node:
    rack = rng.randrange(4)
    labels = {"rack": f"r{rack}", "block": f"b{rack // 2}", "zone": f"z{rng.randrange(2)}"}
    for key in list(labels):
        if rng.random() < 0.05:
            del labels[key]
    labels[HOSTNAME] = f"n{number}"
    cpu_milli = rng.choice((1_000, 2_000, 3_000))
    gpus = rng.choice((0, 1, 2))
    return node(f"n{number}", cpu_milli, labels=labels, gpu_count=gpus)


def _kind(rng: random.Random) -> Kind:
    cpu_milli = rng.choice((300, 500, 700, 1_000, 1_500))
    key = rng.choice((HOSTNAME, "rack", "zone"))
    match rng.randrange(8):
        case 0:
            return Kind(cpu_milli, port=True)
        case 1:
            return Kind(cpu_milli, gpu_milli=rng.choice((250, 500, 600, 1_000)))
        case 2:
            return Kind(cpu_milli, rule="apart", key=rng.choice((HOSTNAME, "rack")))
        case 3 | 4:
            return Kind(cpu_milli, rule="spread", key=key)
    return Kind(cpu_milli)


def _standing(rng: random.Random) -> Kind:
    cpu_milli, app = rng.choice((200, 500, 900)), rng.choice(("web", "db", "db"))
    match rng.randrange(6):
        case 0:
            return Kind(cpu_milli, app, port=True)
        case 1:
            return Kind(cpu_milli, app, gpu_milli=rng.choice((300, 500, 1_000)))
        case 2:
            return Kind(cpu_milli, app, rule="apart", key=HOSTNAME)
    return Kind(cpu_milli, app)


# ------------------------------------------------------------------------------- the product


class Play:
    """The case on one shard."""

    def __init__(self, case: Case) -> None:
        self.case, self.attempt = case, 0
        self.shard, self.permit = Shard(), Steps(PermitCore(1))
        self.shard.nodes(*range(1, len(case.nodes) + 1), *case.nodes)
        for number, kind in enumerate(case.standing, start=101):
            self.shard.sig(number, kind.spec()).dispatch(number, number)
            for event in self.shard.run():
                if isinstance(event, Reserved):
                    self._note(case.found, [kind], event)
        for number, kind in enumerate(case.kinds, start=1):
            self.shard.sig(number, kind.spec())

    def _note(self, found: list[Placed], kinds: list[Kind], event: Reserved | GangHeld) -> None:
        nodes = unpack(event.nodes).tolist()
        masks = unpack(event.devices).tolist() if event.devices else [0] * len(nodes)
        for at, (where, mask) in enumerate(zip(nodes, masks, strict=True)):
            found.append((where - 1, kinds[at % len(kinds)], mask.bit_length() - 1))

    def start(self, parts: list[range], least: int, placed: range) -> list[int] | None:
        """Return the nodes of the members that were committed, or None if the gang was refused."""
        members = tuple(
            Members(sig, pack(list(ids))) for sig, ids in enumerate(parts, start=1) if ids
        )
        for _ in range(ATTEMPTS_MAX):
            self.attempt += 1
            sent = GangDispatched(
                *(self.attempt, GANG, 1, least, members, 300_000),
                topology=self.case.topology,
                placed=pack(list(placed)),
            )
            held: list[GangHeld] = []
            asked = self.permit.when(sent)
            while asked:
                self.shard.given(*asked)
                last, answers = asked[-1], self.shard.run()
                held += [one for one in answers if isinstance(one, GangHeld)]
                words = (GangOffered, GangHeld, GangRefused)
                asked = self.permit.when(*(one for one in answers if isinstance(one, words)))
            if isinstance(last, GangCommitted):
                for one in held:
                    kinds = [self.case.kinds[sig - 1] for sig in unpack(one.sigs).tolist()]
                    self._note(self.case.found, kinds, one)
                return [where - 1 for where in unpack(last.nodes).tolist()]
            assert isinstance(last, GangReleased)
            if not last.stale:
                return None
        raise AssertionError("the gang is tried for ever")


# -------------------------------------------------------------------------------- the search


def path_of(where: Node, topology: Topology, depth: int) -> tuple[str, ...] | None:
    """Return the domain of a node; None if it lacks a label, which only the whole cluster takes."""
    if not depth:
        return ()
    values = [where.labels.get(key) for key in topology.levels]
    return None if None in values else tuple(map(str, values[:depth]))


def depths(topology: Topology) -> range:
    """Return the depths of the allowed levels, the narrowest first."""
    return range(topology.lowest + 1, topology.highest, -1)


def level_of(case: Case, rows: list[int]) -> int | None:
    """Return the depth of the narrowest allowed domain in which all these nodes are."""
    for depth in depths(case.topology):
        paths = {path_of(case.nodes[row], case.topology, depth) for row in rows}
        if len(paths) == 1 and None not in paths:
            return depth
    return None


def best_level(case: Case) -> int | None:
    """Return the depth of the narrowest allowed level with a domain in which enough members fit."""
    for depth in depths(case.topology):
        paths = [path_of(one, case.topology, depth) for one in case.nodes]
        for path in sorted({one for one in paths if one is not None}):
            within = [row for row, one in enumerate(paths) if one == path]
            is_home = all(home in within for home in case.homes)
            if is_home and Search(case, within).fits(tuple(case.counts)):
                return depth
    return None


class Search:
    """Whether enough members fit in one domain, one by one in some order."""

    def __init__(self, case: Case, within: list[int]) -> None:
        self.case, self.within = case, within
        self.seen: set[tuple[tuple[int, ...], frozenset[tuple[Placed, int]]]] = set()

    def fits(self, left: tuple[int, ...]) -> bool:
        """Return whether enough of these members fit."""
        return self._more(left, [], self.case.least)

    def _more(self, left: tuple[int, ...], placed: list[Placed], needed: int) -> bool:
        if not needed:
            return True
        key = (left, frozenset(Counter(placed).items()))
        if key in self.seen or not self._may_fit(left, placed, needed):
            return False
        self.seen.add(key)
        for at, count in enumerate(left):
            if not count:
                continue
            rest = (*left[:at], count - 1, *left[at + 1 :])
            for one in self._places(self.case.kinds[at], placed):
                if self._more(rest, [*placed, one], needed - 1):
                    return True
        return False

    def _may_fit(self, left: tuple[int, ...], placed: list[Placed], needed: int) -> bool:
        least = min(kind.cpu_milli for kind, n in zip(self.case.kinds, left, strict=True) if n)
        free = (self._free(row, placed) // least for row in self.within)
        return sum(free) >= needed

    def _free(self, row: int, placed: list[Placed]) -> int:
        used = sum(kind.cpu_milli for at, kind, _ in (*self.case.found, *placed) if at == row)
        return dict(self.case.nodes[row].allocatable)["cpu"] - used

    def _places(self, kind: Kind, placed: list[Placed]) -> Iterator[Placed]:
        for row in self.within:
            if self._allows(kind, row, placed):
                for device in self._devices(kind, row, placed):
                    yield row, kind, device

    def _devices(self, kind: Kind, row: int, placed: list[Placed]) -> list[int]:
        if not kind.gpu_milli:
            return [-1]
        used = [0] * self.case.nodes[row].gpu_count
        for at, other, device in (*self.case.found, *placed):
            if at == row and device >= 0:
                used[device] += other.gpu_milli
        return [at for at, milli in enumerate(used) if milli + kind.gpu_milli <= DEVICE_MILLI]

    def _allows(self, kind: Kind, row: int, placed: list[Placed]) -> bool:
        nodes, there = self.case.nodes, (*self.case.found, *placed)
        if self._free(row, placed) < kind.cpu_milli:
            return False
        if kind.port and any(at == row and other.port for at, other, _ in there):
            return False
        for at, other, _ in there:
            if kind.rule == "apart" and other.app == "web" and _same(nodes, kind.key, at, row):
                return False
            if other.rule == "apart" and kind.app == "web" and _same(nodes, other.key, at, row):
                return False
        if kind.rule != "spread":
            return True
        counts = Counter({nodes[one].labels.get(kind.key): 0 for one in self.within})
        counts.pop(None, None)
        for at, other, _ in there:
            value = nodes[at].labels.get(kind.key)
            if at in self.within and value is not None:
                counts[value] += other.app == "web"
        value = nodes[row].labels.get(kind.key)
        return value is not None and counts[value] + 1 - min(counts.values()) <= 1


def _same(nodes: list[Node], key: str, one: int, other: int) -> bool:
    value = nodes[one].labels.get(key)
    return value is not None and value == nodes[other].labels.get(key)


# ---------------------------------------------------------------------------------- compared


def levels_of(case: Case) -> tuple[int | None, int | None]:
    """Return the level that the product finds, and the one that the search finds; None: none."""
    play = Play(case)
    if case.first:
        before = play.start([range(100, 100 + case.first)], case.first, range(0))
        if before is None:
            return None, None
        case.homes = before
    wanted = best_level(case)
    members = [range(10 * at, 10 * at + count) for at, count in enumerate(case.counts, start=1)]
    rows = play.start(members, case.least, range(100, 100 + len(case.homes)))
    if rows is None:
        return None, wanted
    got = level_of(case, [*rows, *case.homes])
    assert len(rows) >= case.least
    assert got is not None, "members are in no domain"
    assert wanted is not None, f"placed at level {got}, the search finds nothing"
    assert got <= wanted, f"placed at level {got}, the search finds {wanted} only"
    return got, wanted


def test_levels_are_those_of_an_exhaustive_search() -> None:
    """Greedy placement misses a few of two kinds only (docs/explanation/gangs.md)."""
    cases = [make_case(seed) for seed in range(CASES)]
    levels = [levels_of(case) for case in cases]
    missed = [case for case, (got, wanted) in zip(cases, levels, strict=True) if got != wanted]
    print(f"{len(missed)} of {CASES} are refused or at a broader level than the search finds")
    assert [case.seed for case in missed if len(case.kinds) == 1] == []
    assert len(missed) <= CASES * MISSED_MAX, [case.seed for case in missed]
    found = Counter(wanted for _got, wanted in levels)
    assert min(found[level] for level in (None, 0, 1, 2, 3)) > CASES / 50, found


@pytest.mark.parametrize("bug", BY_THE_SEARCH, ids=lambda bug: bug.name)
def test_a_change_is_found_by_the_search(bug: Bug) -> None:
    with planted(bug):
        assert any(map(_is_missed, bug.first))


def _is_missed(seed: int) -> bool:
    try:
        got, wanted = levels_of(make_case(seed))
    except AssertionError:
        return True
    return got != wanted
