"""Every parked pod that could now evict a pod is woken: pods left parked after other pods leave
could not.
"""

from hypothesis import given
from hypothesis import strategies as st

from services.placement.core.preemption import dry_run
from shared.events.placement import CandidatesFound, Improved, Refused
from shared.events.preemption import DryRunAsked
from shared.model.columns import unpack
from tests.unit.placement.shard import Shard, node, spec

NODES, CPU = (1, 2), 4
PRIORITIES = (0, 5, 9)
RUNNING = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(PRIORITIES), st.sampled_from(NODES)), max_size=8
)
WANTED = st.lists(st.tuples(st.integers(1, CPU), st.sampled_from(PRIORITIES)), max_size=4)


class Asleep:
    """A shard, and the signatures that it reported as hopeless."""

    def __init__(self, running: list[tuple[int, int, int]]) -> None:
        self.shard = Shard().nodes(1, node("a"), 2, node("b"))
        for at, priority in enumerate(PRIORITIES):
            for cpu in range(1, CPU + 1):
                self.shard.sig(10 * at + cpu, spec(cpu=1_000 * cpu, priority=priority))
        free = dict.fromkeys(NODES, CPU)
        self.running: list[int] = []
        for pod, (cpu, priority, on) in enumerate(running, start=1):
            if free[on] >= cpu:
                free[on] -= cpu
                self.running.append(pod)
                self.shard.assigned((pod, 10 * PRIORITIES.index(priority) + cpu, on))
        self.hopeless: set[int] = set()
        self.asks = 0

    def tried(self, sig: int, pod: int) -> None:
        """A refused pod asks for victims; a placed pod stays."""
        (answer,) = self.shard.dispatch(sig, pod).run()
        if isinstance(answer, Refused):
            self.asks += 1
            helps = False
            if answer.preemptible:
                (found,) = self.shard.given(DryRunAsked(self.asks, pod, sig)).run()
                assert isinstance(found, CandidatesFound)
                helps = bool(found.candidates)
            if not helps:
                self.hopeless.add(sig)

    def left(self, pod: int) -> list[int]:
        """Return the signatures that improve when the pod leaves."""
        woken: list[int] = []
        for event in self.shard.gone(pod).run():
            if isinstance(event, Improved):
                woken += unpack(event.sigs).tolist()
        return woken


@given(RUNNING, WANTED, st.randoms(use_true_random=False))
def test_every_preemptor_that_could_now_evict_is_woken(running, wanted, random):
    world = Asleep(running)
    for pod, (cpu, priority) in enumerate(wanted, start=100):
        world.tried(10 * PRIORITIES.index(priority) + cpu, pod)
    random.shuffle(world.running)
    for number, pod in enumerate(world.running, start=200):
        for at, sig in enumerate(world.left(pod)):
            world.hopeless.discard(sig)
            world.tried(sig, 10 * number + at)
        for sig in sorted(world.hopeless):
            found, _reasons = dry_run.candidates(world.shard.state, DryRunAsked(0, 0, sig))
            assert not found, f"signature {sig} sleeps, and could have {found[0]}"
