"""`make bench-cluster` at a tiny size: all cases, all contestants, and no void figure."""

import json
import subprocess
import sys

import pytest

from tests.live.conftest import require_kube
from tests.live.support.objects import ROOT

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
TINY = ["--runs", "1", "--nodes", "20", "--pods", "120", "--bound", "40", "--seconds", "1"]
SCHEDULERS = {"kube-scheduler", "muster"}


def figures(case: str, *more: str) -> dict[tuple[str, str], float]:
    """(contestant, measure) -> value of one run."""
    require_kube()
    command = [sys.executable, "-m", "loadtest.cluster", case, *TINY, *more, "-o", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert not any(row["void"] for row in rows), rows
    assert {row["case"] for row in rows} == {case}
    return {(row["who"], row["what"]): row["value"] for row in rows}


@pytest.mark.parametrize("case", ["backlog", "creating"])
def test_throughput_is_measured_of_all_three(case: str):
    found = figures(case)
    for who in ("bare", *SCHEDULERS):
        assert found[who, "bound"] > 0
    for who in SCHEDULERS:
        assert found[who, "CPU of its own"] > 0
        # A binding for each, and its event.
        assert found[who, "API writes"] == pytest.approx(2.0, abs=0.2)
    assert found["bare", "API writes"] == pytest.approx(1.0, abs=0.01)
    times = found["muster", "bound"] / found["kube-scheduler", "bound"]
    assert found["muster", "times kube-scheduler"] == pytest.approx(times, abs=0.01)


def test_times_are_measured():
    started = figures("startup")
    assert {who for who, _ in started} == SCHEDULERS
    assert all(seconds > 0 for seconds in started.values())
    found = figures("latency", "--only", "muster")
    assert {who for who, _ in found} == {"muster"}
    assert 0 < found["muster", "p50"] <= found["muster", "p99"]


def test_the_cost_of_waiting_pods_is_measured():
    found = figures("waiting", "--only", "muster")
    assert found["muster", "CPU while they wait"] >= 0
    assert found["muster", "writes while they wait"] >= 0
    assert {who for who, _ in found} == {"muster"}


def test_shapes_are_measured_of_both():
    name = "default spreading"
    found = figures("shapes", "--shape", name)
    bare, own, theirs = (
        found["bare", "bound"],
        found["muster", f"{name}: bound"],
        found["kube-scheduler", f"{name}: bound"],
    )
    assert found["muster", f"{name}: times kube-scheduler"] == pytest.approx(own / theirs, abs=0.01)
    assert found["muster", f"{name}: of 0.6 x bare"] == pytest.approx(own / 0.6 / bare, abs=0.01)


def test_batches_are_measured_beside_those_of_kube_scheduler():
    found = figures("batching")
    whos = ("kube-scheduler, single cycles", "kube-scheduler, batching", "muster")
    assert {who for who, _ in found} == {*whos}
    for who in whos:
        assert found[who, "bound"] > 0
        # All sixteen pods can be bound before the first is seen, and nothing is left to measure.
        assert found[who, "CPU of its own"] >= 0


@pytest.mark.parametrize("case", ["groups", "devices"])
def test_other_pods_are_measured_of_all_three(case: str):
    found = figures(case)
    for who in ("bare", *SCHEDULERS):
        assert found[who, "bound"] > 0


def test_both_ways_to_list_find_every_pod():
    found = figures("lists")
    for who in ("paged list", "watch-list"):
        assert found[who, "all known after"] > 0


def test_an_unknown_argument_is_refused():
    command = [sys.executable, "-m", "loadtest.cluster", "backlog", "--only", "nobody"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "must be one of bare, kube-scheduler, muster" in done.stderr
