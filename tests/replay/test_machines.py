"""Decisions are the same under another hash seed and on a CPU with fewer features."""

import os
import subprocess
import sys

import pytest

from tests.machines import DISPATCHED, OTHER_MACHINES, PLAIN_CPU, features_left
from tests.replay import again
from tests.replay.recorded import JOURNALS, recorded

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replay")]

ENVIRONMENTS = {
    "hash seed 1": {"PYTHONHASHSEED": "1"},
    "hash seed 4242": {"PYTHONHASHSEED": "4242"},
    "plain CPU": PLAIN_CPU,
}


@pytest.mark.parametrize("environment", [PLAIN_CPU, *OTHER_MACHINES], ids=str)
def test_a_plain_processor_has_nothing_left_that_numpy_chooses_by(environment):
    assert DISPATCHED, "nothing to mask: replay is compared with itself on this machine"
    assert not features_left(environment)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    file = tmp_path_factory.mktemp("replay") / "journals"
    again.write(recorded(3), file)
    return file


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_a_recording_replays_elsewhere(recording, environment):
    command = [sys.executable, "-m", "tests.replay.again", str(recording)]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [words[0] for words in lines] == JOURNALS
    assert all(len(words) == 4 for words in lines), done.stdout
    assert all(int(words[3]) > 0 for words in lines), "no snapshot hash was compared"
