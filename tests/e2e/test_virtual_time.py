"""`muster run` on virtual time: weeks in seconds, the same journals each time, and its end."""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from muster.cli.commands.run import Options
from shared.worlds.settings import Choice
from tests.e2e.console import ROOT, TIMEOUT_S, muster
from tests.unit.worlds.manifests import NODE, container, pod

EXAMPLE = ROOT / "examples" / "manifests"
DAY_S = 86_400
LISTENING = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    " runpy.run_module('muster', run_name='__main__')"
)
"""The command where Ctrl-C is not ignored, as it is in what a script starts in the background."""
HEADLINE = 3
"""Lines at the end of a summary."""


def arrives(name: str, after: str, runs: str = "", cpu: str = "5") -> dict:
    made = pod(name, containers=[container(cpu=cpu)])
    made["metadata"]["annotations"] = {"muster.io/arrives-after": after}
    if runs:
        made["metadata"]["annotations"]["muster.io/runs-for"] = runs
    return made


def world(folder: Path, *objects: dict) -> Path:
    path = folder / "world.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, *objects]}))
    return path


def journals(run: Path) -> dict[str, list]:
    with sqlite3.connect(run / "journals.db") as file:
        named = file.execute("SELECT id, name FROM journals").fetchall()
        return {
            name: file.execute(f"SELECT position, payload FROM journal_{number}").fetchall()
            for number, name in named
        }


def test_two_runs_write_the_same_journals(tmp_path):
    for name in ("one", "two"):
        assert muster("run", EXAMPLE, "-p", "2", "--run-dir", tmp_path / name).code == 0
    assert journals(tmp_path / "one") == journals(tmp_path / "two")


def test_weeks_pass_at_once_and_pods_that_wait_for_days_are_bound(tmp_path):
    path = world(
        tmp_path,
        arrives("first", "0s", runs="100h"),
        arrives("second", "24h", runs="200h"),
        arrives("last", "480h"),
    )
    began_s = time.monotonic()
    ran = muster("run", path, "--run-dir", tmp_path / "run", "-o", "json")
    assert time.monotonic() - began_s < 60
    assert ran.code == 0, ran.err
    result = ran.json()
    assert (result["ever_bound"], result["gone"], result["bound"]) == (3, 2, 1)
    assert result["latency_ms"]["max"] // 3_600_000 == 100 - 24
    assert result["world_seconds"] // DAY_S == 20
    assert muster("replay", tmp_path / "run").code == 0


def test_the_limit_is_of_world_time_and_leaves_a_summary(tmp_path):
    path = world(tmp_path, arrives("first", "0s"), arrives("last", "2400h"))
    ran = muster("run", path, "--run-dir", tmp_path / "run", "--time-limit", str(10 * DAY_S))
    assert ran.code == 1
    announced, complained = ran.err.splitlines()
    assert announced == (
        "world.json: 2 pods, the last arrives after 100 d of world time, played on virtual time"
    )
    assert complained == ("muster: not complete after 10 d of world time: 1 pod is still to come")
    first, _allocated, last = ran.out.splitlines()[-HEADLINE:]
    assert first == "1 of 1 pod bound (100 %); 0 waiting"
    assert last.startswith("10 d of world time in ")
    assert last.endswith(f"; kept in {tmp_path / 'run'}")


def test_a_world_longer_than_the_wall_clock_allows_is_refused_before_it_starts(tmp_path):
    path = world(tmp_path, arrives("last", "2400h"))
    ran = muster("run", path, "--run-dir", tmp_path / "run", "--real-time")
    assert ran.code == 2
    assert ran.err.strip() == (
        "muster: the last pod arrives after 100 d, and without --time-limit a run on the wall "
        "clock ends after 2 min 50 s"
    )
    assert not (tmp_path / "run").exists()


def options(words: list[str], real_time: bool = False) -> Options:
    return Options(words, Choice(), 1, "memory", None, [], real_time=real_time)


def test_floods_and_real_time_runs_use_the_wall_clock():
    assert not options(["flood:pods=1"]).is_virtual
    assert options([str(EXAMPLE)]).is_virtual
    assert not options([str(EXAMPLE)], real_time=True).is_virtual


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
@pytest.mark.parametrize("is_virtual", [True, False])
def test_a_signal_ends_a_run_with_a_partial_summary(tmp_path, number, code, said, is_virtual):
    # Pods that each start when the one before ends: years of world time.
    many = world(tmp_path, *(arrives(f"p{one}", f"{one * 100}h", "99h") for one in range(400)))
    words = [str(many)] if is_virtual else ["flood:pods=2000,nodes=2,rate=10", "--time-limit=900"]
    run = str(tmp_path / "run")
    command = [sys.executable, "-c", LISTENING, "run", *words, "--run-dir", run]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        while "bound" not in (line := running.stderr.readline()):
            assert line or running.poll() is None
        running.send_signal(number)
        out, err = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == code, err
    assert err.splitlines()[-1] == f"muster: {said}"
    assert "bound" in out.splitlines()[-HEADLINE]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["interrupted"]
    assert not summary["complete"]
    assert not summary["confirmed"], "nothing was checked"
    assert muster("replay", tmp_path / "run").code == 0
