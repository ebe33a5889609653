"""Nodes with more GPUs than a mask holds: the checker counts whole ones, and allows no shares."""

import pytest

from muster.checker.filters.fits import Load, device_room, full_for
from shared.model.objects import GpuRequest, Node, PodSpec

NODE = Node(uid="u", name="n", allocatable=(("pods", 110),), gpu_count=80)


def of(count: int, milli: int = 1000) -> PodSpec:
    return PodSpec(gpu=GpuRequest(milli, count))


@pytest.mark.parametrize(
    ("taken", "asked", "said"),
    [
        ((), of(63), None),
        ((), of(64), "gpu"),
        ((), of(1, 500), "gpu"),
        ((60, 19), of(1), None),
        ((60, 19), of(2), "gpu"),
    ],
)
def test_the_sum_counts(taken, asked, said):
    load = Load()
    for pod, count in enumerate(taken):
        load.add(pod, of(count), (1 << count) - 1)
    assert device_room(NODE, load) is None
    assert full_for(asked, NODE, load) == said
