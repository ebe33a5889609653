"""`muster simulate`: the seed is printed first, any world will do, and the exit code gives the
result.
"""

import re

import pytest

from muster.simulation import command
from muster.simulation.command import simulate_world
from muster.simulation.run import Result
from shared.worlds.settings import Choice, load_world
from tests.simulation.planted import IS_LONG, ROOT

SEEDS_OF_A_TRACE = (1, 7) if IS_LONG else (1,)
"""A timer that never stops and sums of GPUs that do not agree showed at this size only."""


def test_the_seed_is_printed_first_and_a_good_run_exits_with_zero():
    lines: list[str] = []
    assert simulate_world(None, 3, say=lines.append) == 0
    assert lines[0] == "seed 3"
    assert lines[-1] == "no violation"


def test_progress_goes_to_standard_error(monkeypatch, capsys):
    monkeypatch.setattr(command, "PROGRESS_S", 0.0)
    assert simulate_world(None, 3, say=lambda _line: None) == 0
    shown = capsys.readouterr()
    assert not shown.out
    first, *more = shown.err.splitlines()
    told = r" +[\d.]+ s  [\d.]+ virtual s: [\d,]+ of [\d,]+ pods bound, \d+ process deaths?"
    assert re.fullmatch(told, first)
    assert any(line.endswith("replaying the journals") for line in more)


def test_a_violation_is_printed_and_exits_with_one(monkeypatch):
    bad = Result(4, [("no-pod-lost", "pod 7 waits")], ["VIOLATION no-pod-lost: pod 7 waits"])
    monkeypatch.setattr(command, "simulate", lambda *_args, **_options: bad)
    lines: list[str] = []
    assert simulate_world(None, 4, say=lines.append) == 1
    assert lines[:2] == ["seed 4", "VIOLATION no-pod-lost: pod 7 waits"]


def test_the_bundled_example_survives_a_seed_of_faults():
    world = load_world([str(ROOT / "examples" / "manifests")], Choice(False, None, None)).world
    lines: list[str] = []
    assert simulate_world(world, 5, say=lines.append) == 0, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS_OF_A_TRACE)
def test_the_main_job_survives_a_seed_of_faults(data, seed):
    world = load_world([f"openb:{data / 'openb'}"], Choice(False, None, None)).world
    lines: list[str] = []
    assert simulate_world(world, seed, say=lines.append) == 0, "\n".join(lines)
