"""`muster get` on a finished run: as many rows as its summary counts, by names that `why` takes."""

import csv
import io
import json
import shutil

import pytest
from click.shell_completion import ShellComplete

from muster.cli.main import app
from tests.e2e.console import complaint, muster, run_of_examples

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("recorded-run")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_of_examples(tmp_path_factory.mktemp("get") / "runs" / "first")


def test_lists_agree_with_the_summary_of_the_run(run):
    summary = json.loads((run / "summary.json").read_bytes())
    pods = json.loads(muster("get", "pods", run, "-o", "json").out)
    waiting = muster("get", "pods", run, "--waiting", "-o", "name").out.splitlines()
    assert sum(one["state"] == "bound" for one in pods) == summary["bound"]
    assert len(waiting) == summary["waiting"] == sum(not one["node"] for one in pods)
    nodes = list(csv.DictReader(io.StringIO(muster("get", "nodes", run, "-o", "csv").out)))
    assert len(nodes) == summary["nodes"]
    for key in ("cpu_milli", "memory_bytes", "gpu_milli"):
        assert sum(int(one[key]) for one in nodes) == summary[key]["allocated"]
        assert sum(int(one[f"{key}_allocatable"]) for one in nodes) == summary[key]["total"]
    gangs = muster("get", "gangs", run).out.splitlines()
    assert len(gangs) == 1 + summary["gangs"]
    assert gangs[1].startswith("default/training/everything  waiting    12       0/12    ")


def test_a_shell_offers_the_names_in_the_newest_run_and_the_runs(run, monkeypatch):
    monkeypatch.chdir(run.parent.parent)
    shell = ShellComplete(app, {}, "muster", "_MUSTER_COMPLETE")

    def offered(words: str) -> list[str]:
        *before, incomplete = words.split(" ")
        return [one.value for one in shell.get_completions(before, incomplete)]

    assert offered("why ") == ["pod/", "gang/", "node/"]
    assert offered("story pod/default/la") == ["pod/default/latecomer"]
    assert "node/gpu-c1" in offered("why node/")
    assert offered("why pod/default/latecomer ") == ["runs/first"]
    assert offered("replay runs/f") == ["runs/first"]
    monkeypatch.chdir(run)
    assert offered("why pod/") == [], "there is no run"


def test_names_are_those_that_why_takes(run):
    for kind in ("pods", "gangs", "nodes"):
        name = muster("get", kind, run, "-o", "name").out.splitlines()[0]
        told = muster("why", name, run).out
        assert told.startswith(f"{name.replace('/', ' ', 1)}: ")


def test_the_newest_run_is_listed_and_runs_are_deleted(run):
    home = run.parent.parent
    shutil.copytree(run, run.parent / "second")
    found = muster("get", "pods", "--waiting", "-n", "default", cwd=home)
    assert found.out.startswith("NAMESPACE  NAME ")
    assert "reading the newest run, runs/" in found.err
    runs = muster("get", "runs", "-o", "csv", cwd=home).out
    assert [one["state"] for one in csv.DictReader(io.StringIO(runs))] == ["complete"] * 2
    deleted = muster("runs", "rm", "runs/second", cwd=home)
    assert (deleted.code, deleted.out.partition(",")[0]) == (0, "runs/second deleted")
    assert muster("get", "runs", "-o", "name", cwd=home).out == "runs/first\n"
    assert "runs/second: holds no run" in complaint(
        muster("runs", "rm", "runs/second", cwd=home), 2
    )
    assert complaint(muster("runs"), 2).startswith("muster: Missing command.")
    assert "--output yaml: must be one of" in complaint(muster("get", "runs", "-o", "yaml"), 2)
