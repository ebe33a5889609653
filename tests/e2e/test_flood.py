"""`muster flood` in this process: the bundled workloads, and floods that cannot end."""

import json

import pytest

from tests.e2e.console import ROOT, complaint, muster

FLOODS = ROOT / "examples" / "floods"
NO_TARGET = (
    "--target nowhere: must be in-process, kafka, kafka://HOST:PORT, or the file of a kubeconfig"
)
FULL = """
steps:
  - {opcode: createNodes, count: 1}
  - {opcode: createPods, count: 41}
  - {opcode: barrier}
"""
"""Forty pods fill the node's four CPUs."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "pods", "measured", "gone"),
    [
        ("deployments", 2_000, 1_500, 600),
        ("hot-signature", 20_200, 200, 0),
        ("training", 360, 160, 80),
    ],
)
def test_a_bundled_flood_ends_with_its_figures(tmp_path, name, pods, measured, gone):
    run = tmp_path / "run"
    ran = muster("flood", FLOODS / f"{name}.yaml", "-p", "2", "--run-dir", run, "-o", "json")
    assert ran.code == 0, ran.err
    found = ran.json()
    assert found == json.loads((run / "summary.json").read_text())
    assert (found["pods"], found["bound"], found["waiting"]) == (pods, pods, 0)
    assert found["measured"] == found["measured_bound"] == measured
    assert found["gone"] >= gone
    latency, series = found["latency_ms"], found["series"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["p99_9"] <= latency["max"]
    assert sum(series["bound"]) == pods
    assert found["api_writes_per_pod"] >= 1
    assert sum(map(sum, series["shard_pods"])) >= pods
    assert found["shard_imbalance"] >= 1
    told = muster("replay", run)
    assert told.code == 0, "a flood is kept as any run is"


def test_a_flood_whose_pods_stay_is_void_and_says_so(tmp_path):
    (tmp_path / "full.yaml").write_text(FULL)
    words = "flood", "full.yaml", "--run-dir", "run", "--time-limit", "1"
    ran = muster(*words, cwd=tmp_path)
    assert complaint(ran, 1) == "muster: 1 pod still waits after 1 s"
    assert "40 of 41 pods bound" in ran.out
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (found["complete"], found["waiting"]) == (False, 1)


def test_floods_are_compared_and_drawn(tmp_path):
    (tmp_path / "small.yaml").write_text(FULL.replace("41", "40"))
    for name in ("a", "b"):
        ran = muster(
            *("flood", "small.yaml", "--run-dir", name, "-o", "json", "--html", f"{name}.html"),
            cwd=tmp_path,
        )
        assert ran.code == 0, ran.err
        (tmp_path / f"{name}.json").write_text(ran.out)
    words = "flood", "--compare", "a.json", "b.json", "--html", "both.html"
    ran = muster(*words, cwd=tmp_path)
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].split() == ["FIGURE", "a.json", "b.json", "RATIO"]
    assert "bound 40 40 1.00" in [" ".join(line.split()) for line in lines]
    drawn = {path.name: path.stat().st_size for path in tmp_path.glob("*.html")}
    assert drawn.keys() == {"a.html", "b.html", "both.html"}
    assert min(drawn.values()) > 1_000_000


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("", "flood: name a WORKLOAD, or two floods to --compare"),
        ("a --compare b c", "flood: name a WORKLOAD, or two floods to --compare"),
        ("--compare a.json b.json", "a.json: cannot be read: No such file or directory"),
        ("a --rival kube-scheduler", "--rival: requires a live cluster as --target"),
        (
            "a --target nowhere",
            NO_TARGET,
        ),
        ("a --target w -p 2", "--placements: cannot be combined with a live cluster"),
        ("a --html x/y.html", "--html x/y.html: there is no folder x"),
    ],
)
def test_what_cannot_be_compared_or_drawn_is_one_line(tmp_path, words, rule):
    (tmp_path / "w").write_text("")
    assert complaint(muster("flood", *words.split(), cwd=tmp_path), 2) == f"muster: {rule}"


def test_a_bad_workload_is_one_line_and_no_run(tmp_path):
    (tmp_path / "bad.yaml").write_text("steps: [{opcode: createPods, count: 1, arival: {}}]")
    ran = muster("flood", "bad.yaml", "--run-dir", "run", cwd=tmp_path)
    line = "bad.yaml: steps[0].arival: is an unknown field; did you mean arrival?"
    assert complaint(ran, 2) == f"muster: {line}"
    assert not (tmp_path / "run").exists()
