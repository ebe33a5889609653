"""Requests at the end of int64: their sums exceed int64, and snapshots hold them all the same."""

from typing import Any

import pytest

from shared.events.ingest import SignatureDefined
from shared.model.objects import GpuRequest, PodSpec
from tests.unit.queueing.inputs import digest, pending, queue, refused, reserved, tried

INT64_MAX = (1 << 63) - 1
FREE = {"free_cpu_milli": 64_000, "free_memory_bytes": 1 << 40, "free_gpu_milli": 0}
SEVEN_EI = PodSpec(requests=(("cpu", 100), ("memory", 7 << 60)))
AMOUNTS = (("cpu", INT64_MAX), ("memory", INT64_MAX))
EVERYTHING = PodSpec(requests=AMOUNTS, gpu=GpuRequest(1_000, INT64_MAX))


def free(steps: Any) -> dict[str, int]:
    """Return the shard's free amounts, after a snapshot that must change nothing."""
    before = steps.dumped()
    steps.reload()
    assert steps.dumped() == before
    return {name: getattr(steps.state.shards[0], name) for name in FREE}


def flood(spec: PodSpec, pods: int) -> Any:
    steps = queue(priorities=()).given(digest(0, FREE["free_cpu_milli"]))
    return steps.given(SignatureDefined(1, spec), pending(1, *range(1, pods + 1)))


@pytest.mark.parametrize(("spec", "pods"), [(SEVEN_EI, 4), (EVERYTHING, 1), (EVERYTHING, 100)])
def test_a_snapshot_is_due_while_pods_of_absurd_amounts_are_in_flight(spec, pods):
    steps = flood(spec, pods)
    assert free(steps) == FREE
    (attempt,) = tried(steps.when())
    assert free(steps)["free_memory_bytes"] == (1 << 40) - pods * spec.request("memory")
    steps.given(refused(attempt))
    assert free(steps) == FREE


def test_amounts_taken_by_absurd_pods_return_with_the_next_digest():
    steps = flood(EVERYTHING, 100)
    (attempt,) = tried(steps.when())
    steps.given(reserved(attempt, 1, 2, 3), refused(attempt, *range(4, 101)))
    assert free(steps)["free_cpu_milli"] == FREE["free_cpu_milli"] - 3 * INT64_MAX
    steps.given(digest(0, FREE["free_cpu_milli"]))
    assert free(steps) == FREE
