"""`muster simulate --workloads`: mixes through the whole mesh on virtual time."""

import asyncio
import json
from pathlib import Path

import pytest

from muster.app.journals import all_journals
from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from tests.e2e.console import ROOT, complaint, muster

HOURS = """
horizon: 80m
nodes:
  - count: 8
    prefix: gpu
    domains: {example.com/rack: 4}
    template: {status: {allocatable: {cpu: "16", memory: 64Gi, pods: "110", nvidia.com/gpu: "8"}}}
podTemplates:
  trainer:
    spec:
      containers:
        - name: c
          resources: {requests: {cpu: "8", nvidia.com/gpu: "8"}, limits: {nvidia.com/gpu: "8"}}
  urgent:
    spec:
      priority: 100
      containers:
        - name: c
          resources: {requests: {cpu: "1", nvidia.com/gpu: "1"}, limits: {nvidia.com/gpu: "1"}}
training:
  - name: llm
    template: trainer
    arrival: {process: poisson, perHour: 6}
    size: {1: 2, 2: 1}
    topologyKey: example.com/rack
    duration: {shape: exponential, mean: 15m}
inference:
  - {name: chat, template: urgent, replicas: [4, 60]}
batch:
  - name: etl
    arrival: {process: burst, size: 1, every: 30m}
    size: 20
    duration: {shape: uniform, min: 1m, max: 20m}
failures:
  - {meanTimeBetween: 2h, repair: 10m}
"""


def journals(run: Path) -> dict[str, list]:
    """Return all records; how many are stored compressed is up to the machine."""

    async def read(bus: SqliteBus, journal: str) -> list:
        found: list = []
        while batch := await bus.read(journal, len(found)):
            found += batch
        return found

    log = SqliteLog(run / "journals.db", readonly=True)
    try:
        return {name: asyncio.run(read(SqliteBus(log), name)) for name in all_journals(1)}
    finally:
        log.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the mix, played twice, and once with other scores."""
    found = tmp_path_factory.mktemp("mixes")
    (found / "hours.yaml").write_text(HOURS)
    packed = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: muster
    pluginConfig:
      - name: NodeResourcesFit
        args:
          scoringStrategy:
            type: MostAllocated
            resources: [{name: cpu, weight: 1}, {name: nvidia.com/gpu, weight: 1}]
"""
    (found / "packed.yaml").write_text(packed)
    for name, more in (("a", ()), ("b", ()), ("packed", ("--config", "packed.yaml"))):
        words = "simulate", "--workloads", "hours.yaml", "--run-dir", name, "-o", "json", *more
        ran = muster(*words, cwd=found)
        assert ran.code == 0, ran.err
        (found / f"{name}.json").write_text(ran.out)
    return found


def test_the_same_seed_gives_the_same_figures_and_journals_that_replay(folder):
    one, other = (json.loads((folder / f"{name}.json").read_text()) for name in "ab")
    for told in (one, other):
        for key in ("run", "real_s", "speed"):
            del told[key]
    assert one == other
    assert journals(folder / "a") == journals(folder / "b")
    told = muster("replay", folder / "a")
    assert told.code == 0, told.out


def test_figures_of_all_classes_come_out(folder):
    found = json.loads((folder / "a.json").read_text())
    llm, etl, chat = found["classes"]
    assert [one["kind"] for one in found["classes"]] == ["training", "batch", "inference"]
    assert found["horizon_s"] == 80 * 60
    assert found["nodes_failed"] > 0
    assert llm["restarts"] > 0
    assert llm["evicted"] > 0, "Deployments of higher priority make room by day"
    assert llm["lost_gpu_hours"] > 0
    (rack,) = llm["spread"]
    assert (rack["label"], rack["domains"], rack["fullest"]) == ("example.com/rack", 1, 1)
    assert chat["spread"][0]["domains"] > 1
    (arrays,) = etl["sizes"]
    assert (arrays["size"], arrays["came"], arrays["wait_s"]["count"]) == (20, 3, 60)
    assert 60 < arrays["completion_s"]["mean"] < 2 * 1_200
    for size in llm["sizes"]:
        assert 0 < size["completion_s"]["count"] == size["ended"] <= size["wait_s"]["count"]
    used = {one["resource"]: one["used"] for one in found["usage"]}
    assert 0.2 < used["gpu"] < 1
    series = found["series"]
    assert {len(values) for values in series["used"].values()} == {240}
    assert sum(series["used"]["gpu"]) / 240 == pytest.approx(used["gpu"], abs=0.01)


def test_a_configuration_that_packs_leaves_fewer_gpus_on_partly_used_nodes(folder):
    words = "simulate", "--compare", "a.json", "packed.json", "--html", "both.html"
    ran = muster(*words, cwd=folder)
    assert ran.code == 0, ran.err
    lines = {line.split()[0]: line.split()[1:] for line in ran.out.splitlines()}
    assert lines["FIGURE"] == ["a.json", "packed.json", "RATIO"]
    mean = json.loads((folder / "a.json").read_text())["classes"][0]["sizes"][1]["wait_s"]["mean"]
    assert float(lines["llm.2.wait_s.mean"][0].replace(",", "")) == mean
    spread, packed, ratio = map(float, lines["fragmentation"])
    assert packed < spread
    assert ratio == pytest.approx(packed / spread, rel=0.02)
    page = (folder / "both.html").read_text()
    assert len(page) > 1_000_000
    assert "mean wait by class and size" in page


@pytest.mark.slow
def test_the_bundled_mix_is_played_faster_than_time_passes(tmp_path):
    words = "simulate", "--workloads", ROOT / "examples" / "mixes" / "day.yaml", "--run-dir", "run"
    ran = muster(*words, cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert "24 h in" in ran.out or "1 d in" in ran.out


def test_a_trace_is_played_beside_other_classes_on_its_own_nodes(tmp_path):
    trace = f"openb:{ROOT / 'examples' / 'trace'},speed=1"
    etl = "{name: etl, arrival: {process: even, perHour: 2}, size: 3, duration: 5m}"
    text = f"horizon: 6h\ntraces: [{{name: openb, world: '{trace}'}}]\nbatch: [{etl}]\n"
    (tmp_path / "m.yaml").write_text(text)
    ran = muster("simulate", "--workloads", "m.yaml", "--run-dir", "r", "-o", "json", cwd=tmp_path)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    classes = {one["name"]: one["sizes"][0] for one in found["classes"]}
    assert classes["etl"]["came"] == 12
    openb = classes["openb"]
    assert (openb["size"], openb["came"] > 20, openb["ended"] > 5) == (1, True, True)
    assert found["usage"][2]["used"] > 0


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("x --workloads m.yaml", "simulate: name a WORLD, or a mix with --workloads, or --compare"),
        ("--workloads m.yaml --compare a b", "simulate: name a WORLD, or a mix with --workloads"),
        ("--workloads m.yaml --plain", "simulate: name a WORLD, or a mix with --workloads"),
        ("--html a.html", "--html: requires --workloads"),
        ("--set queueing.max_batch=1", "--set: requires --workloads"),
        ("--workloads m.yaml", "m.yaml: nodes: must have an entry"),
        ("--workloads m.yaml --html x/y.html", "--html x/y.html: there is no folder x"),
        ("--compare a b", "a: cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_played_is_one_line(tmp_path, words, rule):
    (tmp_path / "m.yaml").write_text("horizon: 1h")
    line = complaint(muster("simulate", *words.split(), cwd=tmp_path), 2)
    assert line.startswith(f"muster: {rule}")
    assert not (tmp_path / "runs").exists()
