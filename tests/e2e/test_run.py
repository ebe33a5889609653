"""`muster run` on the bundled example, on floods and on the traces: complete, confirmed and
recorded.
"""

import io
import json
from pathlib import Path

import msgspec
import pytest
import yaml

from muster.explain.run_summary import RunSummary
from muster.explain.summary import show
from tests.e2e.console import ROOT, Ran, muster
from tests.support.builders import make_node
from tests.unit.worlds.manifests import container, pod

HOSTNAME = "kubernetes.io/hostname"
EXAMPLE = ROOT / "examples" / "manifests"
TITLE = 26
"""The width of a summary's first column."""


def finished(ran: Ran) -> dict:
    assert ran.code == 0, ran.err
    result = ran.json()
    assert result["complete"]
    assert result["confirmed"]
    assert result["pods"] == result["bound"] + result["waiting"] + result["gone"]
    return result


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example") / "run"
    return folder, muster("run", EXAMPLE, "--run-dir", folder, "--output", "json")


@pytest.mark.slow
def test_the_example_shows_what_it_promises(example):
    result = finished(example[1])
    assert result["gangs_committed"] == 2
    assert result["gangs_timed_out"] == 1
    assert result["preemptions"] >= 1
    assert result["victims"] >= 1
    selector = "node(s) didn't match Pod's node affinity/selector"
    told = [reason for reason in result["waiting_by_reason"] if selector in reason]
    assert told, result["waiting_by_reason"]
    assert result["bound"] >= 1_000 + 3 + 4 + 6 + 8 + 1


@pytest.mark.slow
def test_the_readme_shows_what_is_printed(example):
    """The rows and what of them no clock decides."""
    shown = io.StringIO()
    show(msgspec.convert(finished(example[1]), RunSummary), shown)
    printed = shown.getvalue().splitlines()
    tutorial = (ROOT / "docs" / "tutorial" / "first-run.md").read_text(encoding="utf-8")
    begin, end = tutorial.index("\nworld  ") + 1, tutorial.index("\n```\n\nThe numbers")
    sample = tutorial[begin:end].splitlines()
    assert list(dict.fromkeys(titles(sample[:-1]))) == list(dict.fromkeys(titles(printed[:-1])))
    assert sample[:3] == printed[:3], "world, nodes, pods"
    assert sample[-3:-1] == printed[-3:-1], "the headline, but for the real time it took"


def titles(lines: list[str]) -> list[str]:
    return [line[:TITLE].rstrip() for line in lines]


@pytest.mark.slow
def test_a_run_is_kept_whole(example):
    folder, ran = example
    assert json.loads((folder / "summary.json").read_text()) == ran.json()
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["world"] == [str(EXAMPLE)]
    for name in ("journals.db", "history.msgpack"):
        assert (folder / name).stat().st_size > 0


@pytest.mark.parametrize("bus", ["sqlite", "memory"])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_flood_is_bound_whole(tmp_path, bus, shards):
    words = ("flood:pods=3000,nodes=60", "--bus", bus, "-p", str(shards), "-o", "json")
    result = finished(muster("run", *words, "--run-dir", tmp_path / "run"))
    assert (result["bound"], result["waiting"]) == (3_000, 0)


def test_pods_that_do_not_fit_wait_and_are_confirmed(tmp_path):
    words = ("flood:pods=50,nodes=2,node-pods=10,shapes=distinct", "-o", "json")
    result = finished(muster("run", *words, "--run-dir", tmp_path / "run"))
    assert (result["bound"], result["waiting"]) == (20, 30)
    assert result["waiting_by_reason"] == {"Too many pods": 30}


def test_the_piped_summary_is_plain_text(tmp_path):
    ran = muster("run", "flood:pods=10,nodes=2", "--run-dir", tmp_path / "run")
    assert ran.code == 0
    assert "bound                     10" in ran.out
    assert ran.out.isascii()


def test_a_run_that_cannot_end_in_time_fails_with_one_line(tmp_path):
    words = ("flood:pods=60,nodes=2,rate=10", "--time-limit", "1", "--run-dir", tmp_path / "run")
    ran = muster("run", *words)
    assert ran.code == 1
    assert ran.err.splitlines()[-1].startswith("muster: not complete after 1 s of world time: ")


@pytest.fixture
def openb(data: Path) -> str:
    return f"openb:{data / 'openb'}"


def keep(tmp_path: Path) -> tuple[str, ...]:
    """Return the options of a run that may take long on a busy machine."""
    return "--run-dir", str(tmp_path / "run"), "--output", "json", "--time-limit", "600"


@pytest.mark.slow
@pytest.mark.xdist_group("main-job")
@pytest.mark.parametrize("shards", ["1", "3"])
def test_the_main_job(tmp_path, openb, shards):
    result = finished(muster("run", openb, "-p", shards, *keep(tmp_path)))
    assert result["gangs_committed"] >= 50
    assert result["gangs_timed_out"] >= 10
    assert result["preemptions"] >= 50
    assert result["gpu_milli"]["allocated"] >= 0.8 * result["gpu_milli"]["total"]


@pytest.mark.slow
@pytest.mark.xdist_group("main-job")
def test_three_shards_bind_nearly_what_one_binds(tmp_path, openb):
    """docs/reference/differences.md has the loss for each number of shards."""
    one, three = (
        finished(muster("run", openb, "--plain", "-p", shards, *keep(tmp_path / shards)))
        for shards in ("1", "3")
    )
    for of in (lambda r: r["bound"], lambda r: r["gpu_milli"]["allocated"]):
        assert of(three) >= 0.95 * of(one)


@pytest.mark.slow
@pytest.mark.xdist_group("main-job")
def test_the_other_trace_fills_its_cluster(tmp_path, data):
    result = finished(muster("run", f"dlrm:{data / 'dlrm2025'}", *keep(tmp_path)))
    assert result["bound"] + result["waiting"] == result["pods"] == 23_871


@pytest.mark.slow
@pytest.mark.xdist_group("main-job")
def test_a_trace_is_played_in_its_own_times(tmp_path, openb):
    result = finished(muster("run", openb, "--plain", "--speed", "2000000", *keep(tmp_path)))
    assert result["gone"] == result["pods"] == 8_152
    assert result["seconds"] > 5


def test_four_profiles_at_once(tmp_path):
    """examples/scheduler-config.yaml does what its comments promise, and replays identically."""
    folder, config = tmp_path / "run", ROOT / "examples" / "scheduler-config.yaml"
    words = ("run", ROOT / "examples" / "profiles", "--config", config, "--run-dir", folder)
    result = finished(muster(*words, "-o", "json"))
    assert (result["bound"], result["waiting"]) == (16, 1)
    enforced = "node(s) didn't match scheduler-enforced node affinity"
    assert result["waiting_by_reason"] == {f"Insufficient cpu, {enforced}": 1}

    def nodes(app: str, count: int) -> list[str]:
        pods = (f"default/{app}-{number}" for number in range(count))
        ran = [muster("why", "pod", pod, "--run-dir", folder, "-o", "json") for pod in pods]
        return [one.json()["node"] for one in ran]

    assert len(set(nodes("train", 4))) == 1, "GPUs of one node before those of another"
    assert len(set(nodes("report", 3))) == 1, "batch pods fill a node up"
    assert set(nodes("shop", 3)) == {"premium-1"}, "premium pods go to the fast one of their nodes"
    assert len(set(nodes("web", 6))) > 2, "default pods are spread"
    assert muster("replay", folder).code == 0


HARD = {
    "defaultingType": "List",
    "defaultConstraints": [
        {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}
    ],
}


def hard_defaults(tmp_path: Path) -> tuple[Path, Path]:
    """Return two nodes, the second one full, and three pods that a Service selects."""
    nodes = [
        make_node(name).hostname().capacity(cpu, memory="8Gi").obj()
        for name, cpu in (("a", "4"), ("b", "10m"))
    ]
    pods = [pod(name, containers=[container(cpu="100m")]) for name in "pqr"]
    for one in pods:
        one["metadata"]["labels"] = {"app": "web"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    service["spec"] = {"selector": {"app": "web"}}
    plugin = {"name": "PodTopologySpread", "args": HARD}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [plugin]}],
    }
    world, file = tmp_path / "world.yaml", tmp_path / "config.yaml"
    world.write_text(yaml.safe_dump_all([*nodes, *pods, service]))
    file.write_text(yaml.safe_dump(config))
    return world, file


@pytest.mark.parametrize("shards", ["1", "2"])
def test_default_constraints_of_a_profile_apply_to_pods_of_a_service(tmp_path, shards):
    world, config = hard_defaults(tmp_path)
    where = ("--run-dir", tmp_path / "run", "-o", "json", "-p", shards)
    words = ("run", world, "--config", config, *where)
    result = finished(muster(*words))
    assert (result["bound"], result["waiting"]) == (1, 2)
    skewed = "node(s) didn't match pod topology spread constraints"
    assert result["waiting_by_reason"] == {f"Insufficient cpu, {skewed}": 2}
