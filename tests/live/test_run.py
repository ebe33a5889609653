"""`muster run --kubeconfig` against a real API server: every pod is bound once, no node is
overfilled.
"""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.live.checker import journals
from tests.live.support.case import Case
from tests.live.support.objects import (
    PODS,
    STOP_S,
    Running,
    create_nodes,
    delete_pods,
    muster_run,
    nodes_of,
    pod,
    result_of,
    until,
)
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
KILLS, PODS_EACH = 3, 200
SEED = 11
NODES = [f"node-{number:02}" for number in range(50)]


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    create_nodes(cluster.api, NODES, cpu=4)
    return cluster


@pytest.fixture(autouse=True)
def judged(servers: KubeServers, case: Case, tmp_path: Path) -> Iterator[None]:
    """Check the run after each test, and delete all pods."""
    yield
    case.check(tmp_path / "run")
    delete_pods(servers.api)


def run(servers: KubeServers, tmp_path: Path) -> Running:
    return muster_run(servers.kubeconfig, tmp_path, "-o", "json")


def test_a_thousand_pods_are_bound_once_and_fit_and_have_their_events(
    servers: KubeServers, tmp_path
):
    api = servers.api
    for number in range(1000):
        api.create(PODS, pod(f"pod-{number}")).ok()
    api.create(PODS, pod("theirs", scheduler="somebody-else")).ok()
    with run(servers, tmp_path) as muster:
        until("all bound", lambda: list(nodes_of(api).values()).count("") == 1)
        assert nodes_of(api)["theirs"] == ""
        out = muster.stop()
    result = result_of(out)
    assert (result["bound"], result["pending"]) == (1000, 0)
    assert (result["events_sent"], result["events_dropped"]) == (1000, 0)
    told = api.items("/api/v1/namespaces/default/events?fieldSelector=reason%3DScheduled")
    assert len({event["involvedObject"]["uid"] for event in told}) == 1000


def test_a_run_ends_when_its_folder_is_renamed_and_continues_there(servers: KubeServers, tmp_path):
    api, first = servers.api, tmp_path / "first"
    first.mkdir()
    api.create(PODS, pod("one")).ok()
    with muster_run(servers.kubeconfig, first) as muster:
        until("bound", lambda: nodes_of(api)["one"] != "")
        (first / "run").rename(tmp_path / "run")
        until("it ended", lambda: muster.process.poll() is not None)
        assert muster.process.returncode == 1
        line = muster.said().splitlines()[-1]
        assert "journals.db: was removed or renamed while it was in use; nothing more" in line
    api.create(PODS, pod("two")).ok()
    with run(servers, tmp_path) as muster:
        until("bound", lambda: nodes_of(api)["two"] != "")
        muster.stop()


def test_pods_that_do_not_fit_wait_with_a_message(servers: KubeServers, tmp_path):
    api = servers.api
    with run(servers, tmp_path) as muster:
        api.create(PODS, pod("large", cpu="5")).ok()

        def conditions() -> list[dict[str, str]]:
            found = api.get(f"{PODS}/large").ok()["status"].get("conditions", [])
            assert isinstance(found, list)
            return found

        until("its condition", lambda: bool(conditions()))
        (condition,) = conditions()
        assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
        assert condition["reason"] == "Unschedulable"
        assert condition["message"].startswith("0/50 nodes are available: 50 Insufficient cpu.")
        result = result_of(muster.stop())
    assert result["unschedulable"] == 1, result
    assert "50 Insufficient cpu" in result["reasons"][0]["message"]


def test_a_killed_run_continues(servers: KubeServers, tmp_path):
    api = servers.api
    for number in range(300):
        api.create(PODS, pod(f"first-{number}")).ok()
    with run(servers, tmp_path) as muster:
        until("some bound", lambda: any(nodes_of(api).values()))
        muster.kill()
    for number in range(100):
        api.create(PODS, pod(f"while-away-{number}")).ok()
    # Another client binds one of our pods, and another one is deleted.
    binding = {"metadata": {"name": "while-away-0"}, "target": {"kind": "Node", "name": NODES[0]}}
    api.create(f"{PODS}/while-away-0/binding", {**binding, "apiVersion": "v1"}).ok()
    api.request("DELETE", f"{PODS}/while-away-1?gracePeriodSeconds=0").ok()
    with run(servers, tmp_path) as muster:
        until("all bound", lambda: all(nodes_of(api).values()))
        assert nodes_of(api)["while-away-0"] == NODES[0]
        result = result_of(muster.stop())
    assert result["pending"] == 0


def test_the_process_is_killed_at_random(servers: KubeServers, case: Case, tmp_path: Path):
    """Kill it in the middle of its work each time, after a random number of pods."""
    api, draw = servers.api, random.Random(SEED)

    def is_bound_so_far(pods: int) -> bool:
        return sum(map(bool, nodes_of(api).values())) >= pods

    for kill in range(KILLS + 1):
        for number in range(PODS_EACH):
            api.create(PODS, pod(f"kill-{kill}-{number}", cpu="10m")).ok()
        with run(servers, tmp_path) as muster:
            if kill < KILLS:
                enough = PODS_EACH * kill + draw.randrange(1, PODS_EACH // 2)
                until("some bound", partial(is_bound_so_far, enough))
                muster.kill()
            else:
                until("all bound", lambda: all(nodes_of(api).values()))
                assert result_of(muster.stop())["pending"] == 0
    verdict = case.check(tmp_path / "run")
    assert (verdict.bound, verdict.races) == ((KILLS + 1) * PODS_EACH, [])
    claims = journals.of_file(tmp_path / "run" / "journals.db")["ingest/0"]
    assert sum(bool(entry.owner) for entry in claims) == KILLS + 1


def test_pods_deleted_while_they_are_bound_leave_nothing_behind(servers: KubeServers, tmp_path):
    api = servers.api
    with run(servers, tmp_path) as muster:
        for number in range(200):
            api.create(PODS, pod(f"short-{number}")).ok()
            if number % 2:
                api.request("DELETE", f"{PODS}/short-{number}?gracePeriodSeconds=0").ok()
        until("the rest bound", lambda: all(nodes_of(api).values()) and len(nodes_of(api)) == 100)
        result = result_of(muster.stop())
    assert result["pending"] == 0


def test_a_reset_run_starts_from_nothing(servers: KubeServers, tmp_path):
    """The journals are empty then, and the world is listed as it is."""
    api = servers.api
    api.create(PODS, pod("before")).ok()
    with run(servers, tmp_path) as muster:
        until("bound", lambda: all(nodes_of(api).values()))
        muster.stop()
    api.create(PODS, pod("between")).ok()
    bus = f"sqlite:{tmp_path / 'run' / 'journals.db'}"
    words = ["reset", "--bus", bus, "--kubeconfig", str(servers.kubeconfig), "--reason", "a test"]
    with Running(words, tmp_path / "log-of-reset") as reset:
        assert reset.process.wait(timeout=STOP_S) == 0, reset.said()
    with run(servers, tmp_path) as muster:
        until("bound", lambda: all(nodes_of(api).values()))
        assert result_of(muster.stop())["bound"] == 1
