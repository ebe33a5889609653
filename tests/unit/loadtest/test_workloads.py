"""Workloads run to their end, and a figure without all its pods is void."""

import asyncio

import pytest

from loadtest.workloads import play as playing
from loadtest.workloads.ops import (
    Barrier,
    Churn,
    CreateClaimedPods,
    CreateNodes,
    CreatePods,
    CreateService,
    Workload,
)
from loadtest.workloads.parts import PLAIN
from loadtest.workloads.play import play
from loadtest.workloads.shapes import WORKLOADS
from loadtest.workloads.volumes import CSI, DRIVER
from shared.model.cluster_objects import NodeDriver
from shared.model.objects import CPU, PodSpec

MEASURED = CreatePods | CreateClaimedPods
LARGE = PodSpec(requests=((CPU, 9_000),))


def played(tmp_path, *ops):
    return asyncio.run(play(Workload(lambda: list(ops), 0), tmp_path))


def test_only_measured_pods_count_and_all_of_them(tmp_path):
    first, measured = CreatePods(7, PLAIN), CreatePods(5, PLAIN, measured=True)
    stuck = CreatePods(3, LARGE, stays=True)
    churn = Churn(CreateNodes(1, name="churn"), LARGE, CreateService(()), 0.01)
    nodes = CreateNodes(4, ("a", "b"))
    found = played(tmp_path, nodes, first, Barrier(), stuck, churn, measured, Barrier())
    assert (found.pods, found.bound) == (5, 5)
    assert found.pods_per_s > 0


def test_bound_pods_go_while_others_come(tmp_path):
    """Two pods fit: the measured ones are bound once the first two are gone."""
    half = PodSpec(requests=((CPU, 2_000),))
    first, measured = CreatePods(2, half, deletes_per_s=20), CreatePods(2, half, measured=True)
    found = played(tmp_path, CreateNodes(1), first, Barrier(), measured, Barrier())
    assert (found.pods, found.bound) == (2, 2)


def test_nodes_that_come_and_go_take_pods(tmp_path):
    """One that does not fit anywhere else is bound while the large node is there."""
    large = CreateNodes(1, name="churn", amounts=((CPU, 9_000),))
    churn = Churn(large, LARGE, CreateService(()), 0.1)
    measured = CreatePods(1, LARGE, measured=True)
    found = played(tmp_path, CreateNodes(1), churn, measured, Barrier())
    assert (found.pods, found.bound) == (1, 1)


def test_a_run_with_an_unbound_pod_is_void(tmp_path, monkeypatch):
    monkeypatch.setattr(playing, "LIMIT_S", 0.5)
    found = played(tmp_path, CreateNodes(2), CreatePods(1, LARGE, measured=True), Barrier())
    assert (found.pods, found.bound, found.pods_per_s) == (1, 0, 0.0)


def test_pods_with_claims_go_where_drivers_have_room(tmp_path, monkeypatch):
    nodes = CreateNodes(3, drivers=(NodeDriver(DRIVER, 2),))
    found = played(tmp_path, nodes, CreateClaimedPods(6, PLAIN, CSI, measured=True), Barrier())
    assert (found.pods, found.bound) == (6, 6)
    monkeypatch.setattr(playing, "LIMIT_S", 0.5)
    (again := tmp_path / "again").mkdir()
    found = played(again, nodes, CreateClaimedPods(7, PLAIN, CSI, measured=True), Barrier())
    assert (found.pods, found.bound) == (7, 6)


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_every_workload_has_nodes_and_waits_for_what_it_measures(name):
    *before, last = WORKLOADS[name].ops()
    assert isinstance(last, Barrier)
    assert any(isinstance(one, CreateNodes) for one in before)
    assert sum(one.count for one in before if isinstance(one, MEASURED) and one.measured) >= 1_000
