"""Preemptors that share a dry run get what they would get one after the other: node and victims, or
the same message; of one kind or several. Shards and preemption are real; no pod leaves in between.
"""

from random import Random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.preemption.core.core import PreemptionCore
from shared.events.base import Event
from shared.events.ingest import BudgetCovers, BudgetSet
from shared.events.placement import CandidatesFound
from shared.events.preemption import DryRunAsked, EvictAsked, NominateAsked, PreemptionClosed
from shared.events.queueing import PreemptAsked
from shared.model.columns import pack, unpack
from shared.model.ids import placement
from shared.model.objects import HostPort, PodTerm, Requirement
from tests.support.steps import Steps
from tests.unit.placement.shard import Shard, node, spec

ASKER = 9
FIRST = 1_000
HOSTNAME = "kubernetes.io/hostname"
Outcome = tuple[object, ...]


class Mesh:
    """Shards with low pods on full nodes, and preemption; a function of the seed."""

    def __init__(self, seed: int, shards: int) -> None:
        draw = Random(seed)
        self.preemption = Steps(PreemptionCore(shards))
        self.shards = [Shard(number, shards) for number in range(shards)]
        self.outcome: dict[int, Outcome] = {}
        kind = draw.choice(("amounts", "amounts", "ports", "gpu", "apart"))
        self._define(draw, kind if shards == 1 or kind != "apart" else "amounts")
        many = draw.random() < 0.2
        self.pods = 0
        for number in range(1, (130 if many else draw.randint(1, 8)) + 1):
            self._fill(draw, self.shards[number % shards], number)
        for budget in range(1, draw.choice((0, 0, 1, 2)) + 1):
            self._cover(draw, budget)

    def _define(self, draw: Random, kind: str) -> None:
        """Define four signatures of low pods, and the preemptors' one."""
        for shard in self.shards:
            for sig in range(1, 5):
                ports = (HostPort(80),) if kind == "ports" and sig == 1 else ()
                shard.sig(
                    sig,
                    spec(
                        cpu=sig * 500,
                        priority=sig % 3,
                        host_ports=ports,
                        labels=LABELS,
                        namespace="default",
                    ),
                )
        more: Any = {
            "amounts": {},
            "ports": {"host_ports": (HostPort(80),)},
            "gpu": {"gpu": (1_000, 1)},
            "apart": {"pod_anti_affinity": (APART,), "labels": LABELS, "namespace": "default"},
        }[kind]
        cpu, self.priority = draw.choice((500, 1_000, 2_500)), draw.choice((1, 2, 9))
        asker = spec(cpu=cpu, priority=self.priority, **more)
        for shard in self.shards:
            shard.sig(ASKER, asker)

    def _fill(self, draw: Random, shard: Shard, number: int) -> None:
        shard.nodes(
            number, node(f"n{number}", gpu_count=1, gpu_model="g", labels={HOSTNAME: str(number)})
        )
        left = 4_000
        for _ in range(draw.randint(1, 6)):
            sig = draw.randint(1, 4)
            if sig * 500 <= left:
                left -= sig * 500
                self.pods += 1
                shard.state.now_ms = draw.randint(1, 3)
                shard.assigned((self.pods, sig, number))
        shard.state.now_ms = 10

    def _cover(self, draw: Random, budget: int) -> None:
        pods = sorted(draw.sample(range(1, self.pods + 1), draw.randint(0, self.pods)))
        covers = BudgetCovers(budget, pack(pods))
        named = pack(pods[: draw.randint(0, 1)])
        said = BudgetSet(budget, draw.choice((0, 1, 2, 5)), f"b{budget}", named, pack(pods))
        self.preemption.given(said, covers)
        for shard in self.shards:
            shard.given(covers)

    def add_kinds(self, seed: int, count: int) -> dict[int, int]:
        """Define further signatures of preemptors; return the priority of each."""
        draw, priorities = Random(-seed), {ASKER: self.priority}
        for kind in range(1, count):
            priority = priorities[ASKER + kind] = draw.choice((1, 2, 9))
            asker = spec(cpu=draw.choice((250, 500, 1_000, 2_500, 4_000)), priority=priority)
            for shard in self.shards:
                shard.sig(ASKER + kind, asker)
        return priorities

    def ask(self, pods: list[int]) -> None:
        """Ask for all at once and run to the end; victims stay."""
        first, *others = pods
        self.play(PreemptAsked(first, ASKER, 1, pack(others)))

    def play(self, *asked: PreemptAsked) -> None:
        """Play preemptors of several signatures."""
        events = self.preemption.when(*asked)
        while events:
            self._note(events)
            back: list[Event] = []
            for number, shard in enumerate(self.shards):
                mine = ("placement", placement(number))
                shard.given(*(event for event in events if set(mine) & set(event.to())))
                back += [event for event in shard.run() if "preemption" in event.to()]
            self.preemption.reload()
            events = self.preemption.when(*back) if back else []

    def _note(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, EvictAsked):
                self.outcome[event.pod] = (event.node, unpack(event.victims).tolist())
            elif isinstance(event, PreemptionClosed):
                self.outcome[event.pod] = (event.message,)


LABELS = (("app", "a"),)
APART = PodTerm(HOSTNAME, (Requirement("app", "In", ("a",)),), ("default",))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1 << 20), st.integers(1, 12), st.integers(1, 2))
# In these the first takes what a budget has left, and the other shard had counted on it.
@example(17, 6, 2)
@example(177, 6, 2)
@example(211, 6, 2)
def test_a_shared_dry_run_equals_separate_ones(seed: int, count: int, shards: int) -> None:
    together, alone = Mesh(seed, shards), Mesh(seed, shards)
    pods = list(range(FIRST, FIRST + count))
    together.ask(pods)
    for pod in pods:
        alone.ask([pod])
    assert together.outcome == alone.outcome
    assert len(together.outcome) == count


@settings(max_examples=120, deadline=None)
@given(
    st.integers(1, 1 << 20),
    st.lists(st.integers(1, 4), min_size=2, max_size=10),
    st.integers(1, 2),
)
# Here a later preemptor has the highest priority.
@example(90_000, [1, 1, 1], 1)
def test_simultaneous_signatures_are_served_in_turn(
    seed: int, counts: list[int], shards: int
) -> None:
    together, alone = Mesh(seed, shards), Mesh(seed, shards)
    priorities = together.add_kinds(seed, len(counts))
    assert alone.add_kinds(seed, len(counts)) == priorities
    asked, pod = [], FIRST
    for count, (sig, priority) in zip(counts, priorities.items(), strict=True):
        asked.append(PreemptAsked(pod, sig, 1, pack(range(pod + 1, pod + count)), priority))
        pod += count
    together.play(*asked)
    for one in sorted(asked, key=lambda one: -one.priority):
        alone.play(one)
    assert together.outcome == alone.outcome
    assert len(together.outcome) == sum(counts)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1 << 20), st.integers(2, 12))
def test_a_shard_gives_the_same_candidates_at_once_as_one_by_one(seed: int, count: int) -> None:
    mesh, pods = Mesh(seed, 1), list(range(FIRST, FIRST + count))
    (shard,), budgets = mesh.shards, mesh.preemption.state.budgets
    named = budgets.counted_pods({})
    others = pack(pods[1:])
    (answer,) = shard.given(
        DryRunAsked(1, FIRST, ASKER, budgets.allowances(), b"", others, named)
    ).run()
    assert isinstance(answer, CandidatesFound)
    assert answer.series or not answer.cut
    for ask, pod in enumerate(pods, start=2):
        (found,) = shard.given(
            DryRunAsked(ask, pod, ASKER, budgets.allowances(), named=named)
        ).run()
        assert isinstance(found, CandidatesFound)
        if ask - 2 == len(answer.series):
            assert answer.cut or (answer.reasons, ()) == (found.reasons, found.candidates)
            return
        best = found.candidates[0]
        assert answer.series[ask - 2] == best
        shard.given(NominateAsked(ask, pod, ASKER, 0, best.node, best.victims)).run()
        for victim in unpack(best.victims).tolist():
            budgets.charge(victim)


def test_one_dry_run_serves_many_preemptors() -> None:
    shard = Shard().sig(1, spec(cpu=1_000)).sig(ASKER, spec(cpu=3_000, priority=1))
    for number in range(1, 301):
        shard.nodes(number, node(f"n{number}"))
        shard.assigned(*((number * 4 + pod, 1, number) for pod in range(4)))
    asked = PreemptAsked(5_001, ASKER, 1, pack(range(5_002, 5_201)))
    (dry_run,) = Steps(PreemptionCore(1)).when(asked)
    (found,) = shard.given(dry_run).run()
    assert isinstance(found, CandidatesFound)
    assert len({one.node for one in found.series}) == 200
    assert not found.cut
