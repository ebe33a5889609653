"""Decisions are the same under another hash seed and on a CPU with fewer features."""

import os
import subprocess
import sys

import pytest

from tests.replay import replay_process
from tests.replay.recorded_run import JOURNALS, recorded
from tests.support.other_machines import DISPATCHED, OTHER_MACHINES, PLAIN_CPU, features_left

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replay")]

ENVIRONMENTS = {
    "hash seed 1": {"PYTHONHASHSEED": "1"},
    "hash seed 4242": {"PYTHONHASHSEED": "4242"},
    "plain CPU": PLAIN_CPU,
}


@pytest.mark.parametrize("environment", [PLAIN_CPU, *OTHER_MACHINES], ids=str)
def test_a_plain_processor_has_no_feature_that_numpy_dispatches_on(environment):
    assert DISPATCHED, "nothing to mask: replay is compared with itself on this machine"
    assert not features_left(environment)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    file = tmp_path_factory.mktemp("replay") / "journals"
    replay_process.write(recorded(3), file)
    return file


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_a_recording_replays_on_other_machines(recording, environment):
    command = [sys.executable, "-m", "tests.replay.replay_process", str(recording)]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [words[0] for words in lines] == JOURNALS
    assert all(len(words) == 4 for words in lines), done.stdout
    assert all(int(words[3]) > 0 for words in lines), "no snapshot hash was compared"
