"""Queueing between journals that arrive in any interleaving: nothing twice, nothing forgotten."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.queueing.core.transitions import Pod
from tests.properties.queueing_model import SIZES, World, encode
from tests.properties.queueing_observer import in_state


def long_script(seed: int) -> bytes:
    random = Random(seed)
    return bytes(random.randrange(256) for _ in range(random.randrange(100, 900)))


# Short scripts shrink well; long ones get far.
SCRIPTS = st.binary(min_size=20, max_size=400) | st.integers(0, 1 << 32).map(long_script)
CONFIGS = st.sampled_from(
    [
        {},
        {"max_batch": 1},
        {"credit_units": 70},
        {"credit_units": 40, "strict_order": True},
        {"preemption": False, "reorder_window_ms": 0},
        {"backoff_max_ms": 0},
        {"unbound_max": 3},
        {"unschedulable_max_ms": 3_000},
        {"unschedulable_max_ms": 20_000, "preemption": False},
        {"confirm_ms": 30_000},
        {"confirm_ms": 5_000, "looks_per_s": 1, "unschedulable_max_ms": 20_000},
    ]
)
SHARDS = st.integers(1, 3)


@given(SCRIPTS, CONFIGS, SHARDS)
@settings(max_examples=60)
def test_a_pod_is_in_one_open_attempt_at_most_and_in_none_after_its_end(script, config, shards):
    """Also checked at every event: numbers of attempts, priorities, and all counters."""
    World(script, shards, config).run()


@given(SCRIPTS, CONFIGS, SHARDS)
@settings(max_examples=60)
def test_no_wake_up_is_lost_in_any_interleaving(script, config, shards):
    world = World(script, shards, config).run().heal()
    for sig in sorted(world.parked_sigs()):
        for shard in world.shards:
            assert not shard.fits(SIZES[sig % 4]), f"signature {sig} sleeps, shard {shard.number}"


@given(SCRIPTS, CONFIGS, SHARDS)
@settings(max_examples=50)
def test_credits_are_all_back_at_rest_and_no_pod_is_lost(script, config, shards):
    world = World(script, shards, config).run().heal()
    assert [(shard.units, shard.open) for shard in world.state.shards] == [(0, 0)] * shards
    resting = {Pod.GATED, Pod.PARKED, Pod.GANG_PENDING, Pod.BOUND}
    for pod in world.pods:
        assert world.state.pods.state_of(pod) in resting | {Pod.GONE}
    assert not in_state(world.state, Pod.RESERVED)


@given(SCRIPTS, CONFIGS, SHARDS, st.integers(1, 60))
@settings(max_examples=50)
def test_a_loaded_state_decides_like_the_one_it_was_dumped_from(script, config, shards, at):
    world = World(script, shards, config).run()
    again = World(script, shards, config, reload_at=at).run()
    assert again.log == world.log
    dumped = [encode(each.core.dump(each.state)) for each in (world, again)]
    assert dumped[0] == dumped[1]
    assert again.core.due_ms(again.state) == world.core.due_ms(world.state)


@given(SCRIPTS, CONFIGS, SHARDS)
@settings(max_examples=50)
def test_folding_without_deciding_gives_the_same_state(script, config, shards):
    """Deciding changes no state: a new owner, which only folds, continues in the same way."""
    world = World(script, shards, config).run()
    state = world.core.new()
    for now_ms, event in world.tape:
        state.now_ms = now_ms
        world.core.evolve(state, event)
    state.now_ms = world.state.now_ms
    world.core.check(state)
    assert encode(world.core.dump(state)) == encode(world.core.dump(world.state))
    assert list(world.core.decide(state))[:1] == list(world.core.decide(world.state))[:1]


@given(SCRIPTS, CONFIGS)
@settings(max_examples=60)
def test_work_is_due_exactly_as_long_as_a_step_decides_something(script, config):
    world = World(script, 2, config).run()
    for _ in range(50):
        due_ms = world.core.due_ms(world.state)
        before = len(world.log)
        world.step([])
        decided = len(world.log) > before
        assert decided == (due_ms is not None and due_ms <= world.state.now_ms)
        if not decided:
            return
    raise AssertionError("work never ends")


def fingerprint(seed: int) -> str:
    """Everything one long run decides, as a hash."""
    script = bytes(Random(seed).randrange(256) for _ in range(3_000))
    world = World(script, 3).run()
    events = repr(world.log).encode()
    return hashlib.blake2b(events + encode(world.core.dump(world.state))).hexdigest()


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_decisions_do_not_depend_on_the_hash_seed(hash_seed):
    root = Path(__file__).resolve().parents[2]
    code = "from tests.properties.test_queueing import fingerprint; print(fingerprint(7))"
    other = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == fingerprint(7)


@given(SCRIPTS, CONFIGS, SHARDS, st.integers(1, 60))
@settings(max_examples=50)
def test_plugins_that_hold_and_order_pods_lose_none(script, config, shards, at):
    """Pods held at the end are gated, released ones are not; and a loaded state decides
    the same.
    """
    world = World(script, shards, config, plugins=True).run().heal()
    again = World(script, shards, config, reload_at=at, plugins=True).run().heal()
    assert again.log == world.log
    resting = {Pod.PARKED, Pod.GANG_PENDING, Pod.BOUND, Pod.GONE}
    for pod in world.pods:
        code = world.state.pods.state_of(pod)
        sig = int(world.state.pods.sig[pod - world.state.pods.base])
        if code is Pod.GATED:
            assert sig in world.state.gates or pod in world.gated, f"pod {pod} is held by nobody"
        else:
            assert code in resting
            assert code is not Pod.GANG_PENDING or sig not in world.state.gates
