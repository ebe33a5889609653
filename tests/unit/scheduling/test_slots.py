"""How many pods of a signature fit on each node, as if placed one by one."""

import numpy as np
import pytest

from shared.model.ids import NodeId, SignatureId
from shared.model.objects import CPU, GpuRequest, HostPort, PodSpec, Taint
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.table import NodeTable
from tests.support.builders import model_node


def table() -> NodeTable:
    """Return a tainted node, one of two pods, one with three GPUs, and one of another zone."""
    made = NodeTable(1)
    builders = (
        model_node("tainted", "0").capacity(cpu=9_000, memory=1 << 36).fields(taints=(Taint("t"),)),
        model_node("small", "1")
        .capacity(cpu=9_000, memory=1 << 36, pods=2)
        .fields(labels={"zone": "a"}),
        model_node("gpus", "2")
        .capacity(cpu=3_500, memory=1 << 36)
        .fields(labels={"zone": "a"}, gpu_count=3),
        model_node("b", "3").capacity(cpu=1_000, memory=1 << 36).fields(labels={"zone": "b"}),
    )
    made.set_nodes([NodeId(at) for at in range(4)], [one.obj() for one in builders])
    return made


def signature(of: NodeTable, **fields) -> Signature:
    return Signature(of, SignatureId(1), PodSpec(requests=((CPU, 1_000),), **fields))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {1: 2, 2: 3, 3: 1}),
        ({"node_selector": (("zone", "a"),)}, {1: 2, 2: 3}),
        ({"gpu": GpuRequest(1_000)}, {2: 3}),
        ({"gpu": GpuRequest(1_000, 2)}, {2: 1}),
    ],
)
def test_slots_are_what_single_cycles_place(fields, expected):
    made, kernel = table(), Kernel()
    wanted = signature(made, **fields)
    slots = kernel.slots(made, wanted)
    assert slots is not None
    found = dict(zip(made.ids.tolist(), slots.tolist(), strict=True))
    assert {node: count for node, count in found.items() if count} == expected
    placed = made.ids[kernel.place(made, wanted, 99).rows]
    nodes, counts = np.unique(placed, return_counts=True)
    assert dict(zip(nodes.tolist(), counts.tolist(), strict=True)) == expected


@pytest.mark.parametrize("fields", [{"host_ports": (HostPort(80),)}, {"gpu": GpuRequest(500)}])
def test_ports_and_shared_devices_are_not_a_matter_of_amounts(fields):
    made = table()
    assert Kernel().slots(made, signature(made, **fields)) is None
