"""Safety of a shard over random worlds: never over-full by its own decision, and the same decisions
with and without batches, after a reload at any point, and under any hash seed.
"""

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.placement_world import Driver, decisions, wire

SEEDS = st.integers(0, 1 << 32)
STEPS = 60


@settings(max_examples=25)
@given(SEEDS)
def test_a_shard_never_overfills_a_node_and_its_books_balance(seed):
    Driver(seed).play(STEPS)


@settings(max_examples=15)
@given(SEEDS)
def test_batch_on_equals_batch_off(seed):
    on, off = Driver(seed).play(STEPS), Driver(seed, batch=False).play(STEPS)
    assert list(decisions(on.log)) == list(decisions(off.log))


@settings(max_examples=15)
@given(SEEDS)
def test_a_reloaded_shard_behaves_identically_ever_after(seed):
    straight, reloaded = Driver(seed).play(STEPS), Driver(seed, reload_chance=0.3).play(STEPS)
    assert straight.log == reloaded.log
    assert wire(straight.core.dump(straight.state)) == wire(reloaded.core.dump(reloaded.state))


def test_hash_seeds_do_not_matter():
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.properties.placement_world", "3", str(STEPS)]
    found = {
        subprocess.run(
            command,
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(found) == 1
