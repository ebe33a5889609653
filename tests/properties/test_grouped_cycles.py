"""Cycles over groups of nodes pick what cycles over all nodes pick: each row, total and device, and
the number of feasible nodes and the runner-up of the first.
"""

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from shared.model.objects import (
    HOSTNAME,
    Node,
    PodSpec,
    PodTerm,
    PreferredPodTerm,
    Requirement,
    SpreadConstraint,
)
from shared.model.pod_rules.rule_counts import SignatureCounts, added
from shared.model.profile import DEFAULT_SCORES, Profile
from shared.scheduling.cycle import grouped_cycles
from shared.scheduling.cycle.grouped_cycles import GroupedCycles, grouped
from shared.scheduling.cycle.inter_pod_rules import SingleCycles, counted, know_others, rules_of
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.score_rows import fresh_row
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.profile import Plugins
from shared.scheduling.table.picks import Pick
from shared.scheduling.table.table import NodeTable
from tests.parity.planted.patching import planted
from tests.properties.test_kernel import SEED, a_node, a_spec, seeds
from tests.simulation.planted import Bug

KEYS = ("zone", "zone", "size", "disk", HOSTNAME, HOSTNAME)
ROOMY = (("cpu", 16_000), ("memory", 64 << 30), ("pods", 40))
HEAVY = 1 << 25  # totals beyond 16 bits


def selector(random: Random) -> tuple[Requirement, ...]:
    """Return a selector, of most pods as a rule."""
    one = Requirement("app", "In", random.choice((("a",), ("a", "b"), ("b",))))
    return random.choice(((one,), (one,), (one,), (Requirement("app", "Exists"),), ()))


def a_constraint(random: Random) -> SpreadConstraint:
    return SpreadConstraint(
        random.choice(KEYS),
        random.choice((1, 1, 2, 4)),
        random.random() < 0.5,
        selector(random),
        random.choice((1, 1, 2, 4)),
        random.random() < 0.6,
        random.random() < 0.4,
    )


def a_ruled_spec(random: Random) -> PodSpec:
    """Return a pod of any shape with rules of each kind."""

    def some(make, chance: float, most: int = 2) -> tuple:
        return tuple(make() for _ in range(random.randint(1, most))) * (random.random() < chance)

    def term() -> PodTerm:
        return PodTerm(random.choice(KEYS), selector(random), random.choice(((), ("m", "n"))))

    required = random.random() < 0.5
    spread = some(lambda: a_constraint(random), 0.5, 3)
    return replace(
        a_spec(random),
        namespace=random.choice("nnm"),
        labels=(("app", random.choice("aaab")),),
        spread=tuple(one for one in spread if required or not one.hard),
        spread_by=selector(random) if random.random() < 0.3 else (),
        pod_affinity=some(term, 0.4 * required),
        pod_anti_affinity=some(term, 0.2 * required),
        pods_preferred=some(lambda: PreferredPodTerm(random.choice((-5, 3, 40)), term()), 0.4, 3),
    )


def a_profile(random: Random) -> Profile:
    heavy = HEAVY if random.random() < 0.2 else 1
    spread = tuple(replace(a_constraint(random), selector=None) for _ in range(2))
    return Profile(
        scores=tuple((name, weight * heavy) for name, weight in DEFAULT_SCORES),
        hard_pod_affinity_weight=random.choice((0, 1, 7)),
        default_spread=random.choice((spread, None)),
    )


def some_nodes(random: Random) -> list[Node]:
    kinds = [a_node(random, 0) for _ in range(random.randint(1, 5))]
    if random.random() < 0.5:
        kinds = [replace(one, allocatable=ROOMY) for one in kinds]
    found, lacking = [], random.choice((0, 0, 0.1))
    for number in range(random.randint(1, 24)):
        kind = random.choice(kinds)
        labels = {**kind.labels, HOSTNAME: f"h{number}", "zone": random.choice("xyz")}
        labels["disk"] = random.choice("ab")
        kept = {key: value for key, value in labels.items() if random.random() >= lacking}
        found.append(replace(kind, uid=f"uid-{number}", name=f"n{number}", labels=kept))
    return found


class Shard:
    """A table with pods of each signature, and one of another kind nominated to a node."""

    def __init__(self, random: Random, specs: list[PodSpec], plugins: Plugins) -> None:
        self.table, self.kernel = NodeTable(SEED), Kernel()
        nodes = some_nodes(random)
        self.table.set_nodes(range(1, len(nodes) + 1), nodes)
        self.sigs = [Signature(self.table, at, spec, plugins) for at, spec in enumerate(specs)]
        for sig in self.sigs:
            self.table.counters.add(sig)
        plain = Signature(self.table, len(specs), PodSpec(requests=(("cpu", 900),)))
        self.nominated = (
            {random.randint(1, len(nodes)): [(plain, 0)]} if random.random() < 0.3 else None
        )
        for _ in range(random.choice((0, 3, 20))):
            self.place(random.choice(self.sigs))

    def place(self, sig: Signature) -> None:
        picks = self.kernel.place_naive(self.table, sig)
        self.table.charge(sig, picks.rows, picks.masks)

    def cycles(self, sig: Signature) -> SingleCycles | None:
        rules = rules_of(self.table, sig)
        if rules is None:
            return None
        static_result, local, _ = fresh_row(self.table, sig)
        return SingleCycles(self.table, sig, rules, static_result, local.copy(), self.nominated)


def shards(random: Random) -> list[Shard]:
    """Return one or two shards, which know what the rules count on the other."""
    specs = list(dict.fromkeys(a_ruled_spec(random) for _ in range(5)))
    plugins = Plugins(a_profile(random))
    found = [Shard(random, specs, plugins) for _ in range(random.choice((1, 2)))]
    for at in range(len(specs)):
        counts = [(SignatureCounts(at, counted(one.table, one.sigs[at])),) for one in found]
        for number, one in enumerate(found):
            others = added(each for other, each in enumerate(counts) if other != number)
            know_others(one.sigs[at], [count for each in others for count in each.counts])
    return found


def picks_of(cycles: SingleCycles, k: int) -> Iterator[Pick]:
    """Yield up to k picks, the later ones without what only the first of a batch has."""
    for at in range(k):
        pick = cycles.next()
        if pick is None:
            return
        yield pick if at == 0 else pick._replace(feasible=0, runner_up=-1)
        cycles.add(pick.row)


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the limits, which differ between worlds so that batches of small ones reach them."""
    for name in ("GROUPS_MAX", "GROWN_MAX"):
        monkeypatch.setattr(grouped_cycles, name, getattr(grouped_cycles, name))


def differing(seed: int) -> tuple[Counter[str], list[str]]:
    """Return how many batches had what may differ, and what differed."""
    random = Random(seed)
    limits = random.choice(((3, 3), (6, 6), (12, 12), (256, 512)))
    grouped_cycles.GROUPS_MAX, grouped_cycles.GROWN_MAX = limits
    seen: Counter[str] = Counter()
    found = []
    for shard in shards(random):
        for sig in shard.sigs:
            alone, together = shard.cycles(sig), shard.cycles(sig)
            if alone is None or together is None:
                continue
            together = grouped(together)
            if not isinstance(together, GroupedCycles):
                continue
            k = random.choice((2, 10, 60))
            expected, picks = list(picks_of(alone, k)), list(picks_of(together, k))
            seen["several pods"] += len(picks) > 1
            seen["too many groups"] += len(together._some) > grouped_cycles.GROWN_MAX
            if picks != expected:
                found.append(f"seed {seed}: {sig.spec}: {picks} instead of {expected}")
            shard.place(sig)
    return seen, found


@given(seeds)
@settings(max_examples=200)
def test_groups_of_nodes_give_the_picks_of_all_nodes(seed):
    assert differing(seed)[1] == []


def test_the_worlds_have_what_may_differ():
    seen = sum((differing(seed)[0] for seed in range(100)), Counter())
    assert seen["several pods"] > 100
    assert seen["too many groups"]


@pytest.mark.parametrize(
    "edit",
    [
        ("        self._find(group)\n        if to != group:", "        if to != group:"),
        ("            self._find(to)\n", "            pass\n"),
        ("group = int(same[self._rows[same].argmin()])", "pass"),
        ("if heap and heap[0] < (-score, row):", "if False:"),
        ("if heap and heap[0] < (-score, row):", "if heap:"),
        ("moved.get(at, 0)", "0"),
        ("            sums[group] += self._by_node.row(at)[row]\n", "            pass\n"),
        ("int(self.feasible[among].sum(dtype=np.int64))", "int(among.sum())"),
        ("// np.maximum(self.sizes, 1)", "// 1"),
        ("to = self._next_group(row, group)", "pass"),
        ("                self._by_group[at][group] += amount\n", "                pass\n"),
        ("np.bincount(self._classes[takes],", "np.bincount(self._classes,"),
        ("else others.max() + more[group]", "else others.max()"),
    ],
)
def test_a_change_is_noticed(edit):
    with planted(Bug("changed", "shared.scheduling.cycle.grouped_cycles", edit)):
        assert any(differing(seed)[1] for seed in range(100))
