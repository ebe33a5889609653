"""The cases themselves: the same everywhere, complete, and able to show small changes."""

import hashlib
import json
import os
import subprocess
import sys
from functools import cache

import pytest

from tests.parity.comparison.compare import differences
from tests.parity.comparison.muster_answer import our_answer
from tests.parity.comparison.tally import MESSAGES, SCORED, Tally
from tests.parity.generators.cases import ASSIGNED_MAX, FEATURES, NODES_MAX, PENDING_MAX, case
from tests.parity.generators.kinds import IN_CI, PLAIN
from tests.parity.planted import configs, images, newer_fields, rare_fields, volumes
from tests.parity.planted.patching import planted
from tests.parity.planted.plugins import BUGS
from tests.simulation.planted import ROOT, Bug

CI_CASES = IN_CI[PLAIN]
EACH_MESSAGE_MIN, EACH_SCORE_MIN = 5, 30
PLANTED_CASES = 60
# Every feature alone, then several at once.
PLANTED_SEEDS = (*range(0, 3 * len(FEATURES), 3), *range(1, 3 * PLANTED_CASES, 3))
DIGEST = """
import hashlib, json
from tests.parity.generators.cases import case
text = json.dumps([case(seed) for seed in range(60)])
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_cases_are_the_same_under_every_hash_seed():
    def digest(hash_seed: str) -> str:
        environ = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", DIGEST]
        found = subprocess.run(
            command, env=environ, cwd=ROOT, check=True, capture_output=True, text=True
        )
        return found.stdout.strip()

    here = json.dumps([case(seed) for seed in range(60)])
    assert digest("1") == digest("2") == hashlib.sha256(here.encode()).hexdigest()


def test_cases_are_as_large_as_they_may_be():
    sizes = []
    for seed in range(100):
        kinds = [one["kind"] for one in case(seed)["objects"]]
        sizes.append((kinds.count("Node"), kinds.count("Pod"), len(case(seed)["pods"])))
    nodes, assigned, pending = (sorted(column) for column in zip(*sizes, strict=True))
    assert nodes[0] == 1
    assert nodes[-1] > NODES_MAX // 2
    assert nodes[-1] <= NODES_MAX
    assert assigned[0] == 0
    assert ASSIGNED_MAX // 2 < assigned[-1] <= ASSIGNED_MAX
    assert (pending[0], pending[-1]) == (1, PENDING_MAX)


def test_names_are_given_once():
    for seed in range(100):
        found = case(seed)
        keys = [
            (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
            for one in [*found["objects"], *found["pods"]]
        ]
        assert len(keys) == len(set(keys)), f"seed {seed}"


@pytest.mark.slow
def test_the_cases_of_ci_reach_every_message_and_many_scores():
    tally = Tally()
    for seed in range(CI_CASES):
        answer = our_answer(case(seed))
        assert "error" not in answer, f"seed {seed}: {answer['error']}"
        tally.add(answer)
    few = {text: n for text in MESSAGES if (n := tally.messages[text]) < EACH_MESSAGE_MIN}
    assert few == {}
    few = {plugin: n for plugin in SCORED if (n := tally.scores[plugin]) < EACH_SCORE_MIN}
    assert few == {}
    assert set(tally.messages) == set(MESSAGES), "a message without a count"


@cache
def unchanged(seed: int) -> dict[str, object]:
    """What the parity tests hold to be kube-scheduler's answer."""
    return our_answer(case(seed))


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_planted_change_is_seen(bug: Bug):
    seeds = (*bug.first, *PLANTED_SEEDS)[:PLANTED_CASES]
    for seed in seeds:
        expected = unchanged(seed)
        with planted(bug):
            changed = our_answer(case(seed))
        if differences(changed, expected):
            break
    else:
        pytest.fail(f"{bug.name}: none of {len(seeds)} cases differs")


def test_planted_changes_are_taken_back():
    for bug in BUGS:
        with planted(bug):
            pass
    assert not differences(our_answer(case(0)), unchanged(0))
    assert our_answer(case(1)) == unchanged(1)


def test_every_plugin_that_a_case_can_reach_has_a_change():
    paths = (ROOT / "shared" / "scheduling" / "plugins").rglob("[a-z]*.py")
    modules = {path.stem for path in paths}
    # Devices by model are Muster's own: kube-scheduler has nothing to compare them with. Those of
    # claims have a comparison of their own.
    others = (configs, images, volumes, rare_fields, newer_fields)
    every = (*BUGS, *(bug for one in others for bug in one.BUGS))
    changed = {bug.module.rpartition(".")[2] for bug in every}
    assert modules - changed == {"gpu_devices", "dynamic_resources"}
