"""`make parity`: all kinds in turn, single cases by kind and seed, and the exit code."""

import pytest
from click.testing import CliRunner

from shared.model.release import V1_35, VERSIONS
from tests.parity.__main__ import parity
from tests.parity.generators.kinds import PLAIN, kinds, turns
from tests.parity.oracle.client import require_oracle
from tests.parity.planted.patching import planted
from tests.parity.planted.plugins import BUGS

KINDS = list(kinds("http://127.0.0.1:1"))
ROUNDED = next(bug for bug in BUGS if bug.name == "balance-rounded")


@pytest.fixture
def run():
    require_oracle()
    return lambda *args: CliRunner().invoke(parity, args)


def test_every_other_case_is_plain_and_no_kind_is_left_out():
    order = turns([], KINDS)
    assert order[::2] == [PLAIN] * (len(KINDS) - 1)
    assert [PLAIN, *order[1::2]] == KINDS
    assert turns(["volumes"], KINDS) == ["volumes"]


def test_each_release_is_compared_in_turn(run):
    done = run("--cases", "1", "--shown", "0")
    totals = [line for line in done.output.splitlines() if "1 cases (plain) from seed 0" in line]
    assert [line.partition(":")[0] for line in totals] == [*VERSIONS]


@pytest.mark.parametrize("version", VERSIONS)
def test_all_kinds_are_compared(run, version):
    done = run("--version", version, "--cases", str(len(turns([], KINDS))))
    assert done.exit_code == 0, done.output
    assert f"({', '.join(KINDS)})" in done.output
    assert done.output.endswith("from seed 0: 0 differ\n")


def test_a_difference_names_the_case_that_shows_it(run):
    with planted(ROUNDED):
        done = run("--version", V1_35, "--cases", "20", "--shown", "1")
        assert done.exit_code == 1
        again = next(
            line for line in done.output.splitlines() if line.startswith("--version")
        ).split()
        assert run(*again, "--cases", "1", "--shown", "0").exit_code == 1
    assert run(*again, "--cases", "1").exit_code == 0


def test_an_unknown_kind_is_refused(run):
    done = run("--kind", "volume")
    assert done.exit_code == 2
    assert "volume: must be one of plain, configs" in " ".join(done.output.split())
