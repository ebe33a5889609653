"""Custom plugins that reserve: charges, refusals and errors."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from shared.model.objects import Node, PodSpec
from shared.model.profile import Profile
from shared.scheduling.api.custom.reserve import AMOUNT_MAX
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.report import explain, reasons, resolvable_rows
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.profile import Plugins
from shared.scheduling.table.table import NodeTable
from tests.support.custom_plugins import Seats, known
from tests.unit.scheduling.tables import at, node, rows, spec

SEATS = "node(s) had no seats left"


def pod(seats: str, **more: Any) -> PodSpec:
    return spec(cpu=100, shown=(("labels.seats", seats),), **more)


def seated(number: int, seats: str, **more: Any) -> Node:
    return node(number, labels={"seats": seats}, **more)


@pytest.fixture
def plugins() -> Iterator[Plugins]:
    with known(Seats) as reserve:
        yield Plugins(Profile(reserve=reserve))


def table_with(plugins: Plugins, *nodes: Node) -> NodeTable:
    table = NodeTable(3)
    table.hand_out(plugins.reserving)
    table.set_nodes(range(1, len(nodes) + 1), nodes)
    return table


def test_reserved_amounts_are_missing_until_the_pods_leave(plugins):
    table = table_with(plugins, seated(1, "3"), seated(2, "1"), node(3))
    two = Signature(table, 1, pod("2"), plugins)
    other = Signature(table, 2, pod("2"))
    pick = Kernel().place_one(table, two)
    assert pick is not None
    assert pick.row == at(table, 1)
    table.charge_one(two, pick.row, 0, 1)
    assert Kernel().place_one(table, two) is None
    assert reasons(table, two).messages == ((SEATS, 3),)
    # No pod waits for a node that is too small even without its other pods.
    assert resolvable_rows(table, two).tolist() == [at(table, 1)]
    assert {one.plugin for one in explain(table, two)} == {"Seats"}
    table.charge_one(two, pick.row, 0, -1)
    # Pods of other profiles, and those that take nothing, go anywhere and take nothing.
    for sig in (other, Signature(table, 3, pod("0"), plugins)):
        assert len(Kernel().place(table, sig, 90).rows) == 90
    table.charge_one(other, pick.row, 0, 1)
    assert Kernel().place_one(table, two) is not None


def test_a_node_that_changes_has_other_room(plugins):
    table = table_with(plugins, seated(1, "0"))
    two = Signature(table, 1, pod("2"), plugins)
    assert Kernel().place_one(table, two) is None
    table.set_nodes([1], [seated(1, "5")])
    picks = Kernel().place(table, two, 9)
    assert len(picks.rows) == 2
    table.charge(two, picks.rows, rows(0, 0))
    table.set_nodes([1], [seated(1, "3")])
    assert Kernel().place_one(table, two) is None, "one too many is on it already"
    table.charge(two, picks.rows, rows(0, 0), -1)
    assert len(Kernel().place(table, two, 9).rows) == 1


@pytest.mark.parametrize("seed", range(8))
def test_a_batch_is_as_many_cycles(seed, plugins):
    draw = np.random.default_rng(seed)
    nodes = [
        seated(n, str(draw.integers(0, 6)), cpu=int(draw.integers(1, 9)) * 100)
        for n in range(1, 12)
    ]
    table = table_with(plugins, *nodes)
    sigs = [Signature(table, n, pod(str(n - 1)), plugins) for n in (1, 2, 3)]
    kernel = Kernel()
    for _ in range(12):
        sig = sigs[int(draw.integers(0, 3))]
        batch = kernel.place(table, sig, 4)
        for row in batch.rows.tolist():
            alone = Kernel().place_naive(table, sig)
            assert alone.rows.tolist() == [row]
            table.charge_one(sig, row, 0, 1)
        if len(batch.rows) < 4:
            assert not len(Kernel().place_naive(table, sig).rows)
    free = table.cols[table.resource("Seats: reserve") + len(table.cols) - len(table.allocatable)]
    assert (free >= 0).all()


@pytest.mark.parametrize("seats", ["many", "-1", str(AMOUNT_MAX + 1)])
def test_a_plugin_that_fails_for_a_pod_refuses_it_and_for_a_node_gives_it_nothing(seats, plugins):
    table = table_with(plugins, seated(1, "9"), seated(2, seats))
    before = plugins.reserving[0].plugin.errors
    assert before == 1, "of the node"
    wrong = Signature(table, 1, pod(seats), plugins)
    assert Kernel().place_one(table, wrong) is None
    ((message, count),) = reasons(table, wrong).messages
    assert message.startswith("plugin Seats raised ValueError at line ")
    assert count == 2
    assert not len(resolvable_rows(table, wrong))
    table.charge_one(wrong, 0, 0, 1)
    assert np.isfinite(table.cols).all(), "a fact is charged without unknown amounts"
    right = Signature(table, 2, pod("9"), plugins)
    picks = Kernel().place(table, right, 5)
    assert picks.rows.tolist() == [at(table, 1)]
