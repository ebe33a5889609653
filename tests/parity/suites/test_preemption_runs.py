"""Whole runs with preemption, batched and not, on one shard and on three: every placement, refusal
and choice of victims in their journals is that of kube-scheduler 1.35.4 on the same knowledge.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

from services.queueing.core.waiting.messages import fit_error
from tests.parity.comparison import preemption_runs
from tests.parity.comparison.mesh_runs import World
from tests.parity.comparison.preemption_runs import Decision, Played, played
from tests.parity.generators.preemption import CLASSES
from tests.parity.generators.preemption_worlds import LASTS_S, preempt_world
from tests.parity.oracle.client import Oracle
from tests.parity.planted.patching import planted
from tests.simulation.planted import Bug

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("parity-sequences")]


def wrong(world: World, made: Played, oracle: Oracle) -> list[str]:
    """Return the decisions that kube-scheduler would not have made."""
    answers = oracle.ask_all([made.case(world, one) for one in made.decisions])
    found = [
        _wrong(world, made, one, answer["pods"][0], oracle)
        for one, answer in zip(made.decisions, list(answers), strict=True)
    ]
    return [text for text in found if text]


def _wrong(world: World, made: Played, one: Decision, answer, oracle: Oracle) -> str:
    name = made.names[one.pod]
    if one.preempts:
        if answer["best"]:
            # It waits for the leaving victims there, and may evict pods on other nodes.
            room = [name for name, node in answer["nodes"].items() if node["feasible"]]
            given = made.case(world, one, full=room)
            answer = oracle.ask(given)["pods"][0]
        return "".join(f"{name}: {text}" for text in _preempts(world, made, one, answer))
    if not one.node:
        said = fit_error(one.reasons, len(one.known.nodes))
        return "" if said == answer["fitError"] else f"{name}: {said} / {answer['fitError']}"
    promised = one.known.node_of(one.pod)
    if promised and answer["nodes"][promised]["feasible"]:
        return "" if one.node == promised else f"{name}: {one.node} and not {promised}"
    if one.node not in answer["best"]:
        return f"{name}: {one.node} is none of {answer['best']}"
    total = answer["nodes"][one.node]["total"]
    return "" if total == one.total else f"{name}: {one.total} / {total}"


def _preempts(world: World, made: Played, one: Decision, answer) -> Iterator[str]:
    theirs = answer["preemption"]
    if not one.node:
        said = one.leaving or one.message == theirs["message"]
        if theirs["best"] or not said:
            yield f"{one.message} / {theirs}"
        return
    ours = {"victims": [made.names[pod] for pod in one.victims], "violations": one.violations}
    if theirs["candidates"].get(one.node) != ours:
        yield f"{one.node} {ours} / {theirs['candidates']}"
    elif theirs["best"] != one.node:
        ranks = [
            _rank(world, made, one, theirs["candidates"][node])
            for node in (one.node, theirs["best"])
        ]
        if ranks[0] != ranks[1]:
            yield f"{one.node} {ranks[0]} / {theirs['best']} {ranks[1]}"


def _rank(world: World, made: Played, one: Decision, candidate) -> tuple[int, ...]:
    """By pickOneNodeForPreemption, with ages as the mesh has them; equal by all of it is a tie."""
    numbers = {name: pod for pod, name in made.names.items()}
    victims = [
        (CLASSES[world.pods[name]["spec"]["priorityClassName"]], one.known.placed[numbers[name]][1])
        for name in candidate["victims"]
    ]
    highest = max(value for value, _ms in victims)
    earliest = min(ms for value, ms in victims if value == highest)
    total = sum(value + (1 << 31) for value, _ms in victims)
    return (candidate["violations"], highest, total, len(victims), -earliest)


SEEDS = range(6)
MANY = (6, 7, 8)
"""Numbers of signatures whose pods arrive at the same moment."""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize("shards", [1, 3])
def test_the_same_victims_on_the_same_nodes(seed, shards, batch, oracle, tmp_path):
    given = preempt_world(seed)
    made = played(given, tmp_path, shards, batch, LASTS_S)
    assert wrong(given, made, oracle) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("batch", [True, False])
def test_rules_between_pods_of_a_node_are_kept(seed, batch, oracle, tmp_path):
    given = preempt_world(seed, between=True)
    made = played(given, tmp_path, 1, batch, LASTS_S)
    assert wrong(given, made, oracle) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shards", [1, 3])
def test_simultaneous_signatures_see_earlier_victims(seed, shards, oracle, tmp_path):
    given = preempt_world(seed, kinds=MANY)
    made = played(given, tmp_path, shards, True, LASTS_S)
    assert sum(one.preempts and bool(one.node) for one in made.decisions) >= 8
    assert wrong(given, made, oracle) == []


@pytest.mark.parametrize("shards", [1, 3])
def test_the_runs_reach_what_matters(shards, tmp_path):
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        for one in played(preempt_world(seed), tmp_path, shards, True, LASTS_S).decisions:
            if one.preempts and one.node:
                seen["choices"] += 1
                seen["beyond a budget"] += one.violations > 0
                seen["several victims"] += len(one.victims) > 1
                seen["while others leave"] += bool(one.leaving)
            elif one.preempts:
                seen["no victims"] += 1
            elif one.node:
                seen["placed beside promises"] += bool(one.known.promised)
                seen["together"] += one.together > 1
                seen["on the promised node"] += one.node == one.known.node_of(one.pod)
    assert len(seen) == 8
    assert min(seen.values()) >= 4, seen


def _bug(name: str, module: str, old: str, new: str, seed: int, shards: int = 1) -> Bug:
    return Bug(name, f"services.{module}", (old, new), first=(seed, shards))


DRY_RUN, AT_ONCE = "placement.core.preemption.dry_run", "placement.core.preemption.reprieve"
UNITS, CORE = "placement.core.preemption.unit_parts", "preemption.core.core"
VOID = "            ask.found = {}\n"
PROMISED, CHOICE = "placement.core.preemption.nominations", "preemption.core.candidate_choice"
PLANTED = (
    _bug("least-important-first", AT_ONCE, "starts_ms, -priorities", "starts_ms, priorities", 10),
    _bug("beyond-budgets-last", UNITS, "beyond in (True, False):", "beyond in (False, True):", 0),
    _bug("violations-uncounted", DRY_RUN, "return left, sum(", "return left, 0 * sum(", 1),
    _bug("budget-of-one-more", DRY_RUN, "if left[one] < 0:", "if left[one] < -1:", 0),
    _bug("series-keeps-budgets", DRY_RUN, "self.left.get(budget, 0) - 1)", "9)", 1),
    _bug("equals-are-victims", DRY_RUN, "priority < self.priority", "priority <= self.priority", 1),
    _bug(
        "most-violations",
        CHOICE,
        "        choice.violations,\n",
        "        -choice.violations,\n",
        2,
    ),
    _bug("highest-forgotten", CHOICE, "        found.highest,\n", "        0,\n", 6),
    _bug("sum-forgotten", CHOICE, "found.priority_sum + choice", "0 * choice", 12, 3),
    _bug("earliest-start", CHOICE, "-found.earliest_start_ms", "found.earliest_start_ms", 2, 3),
    _bug("promise-to-equals", PROMISED, "priority >= priority or", "priority > priority or", 2),
    _bug(
        "promised-node-untried",
        "placement.core.placing.cycle",
        "if cycle.nominated_row is not None:",
        "if False:",
        2,
    ),
    _bug(
        "answers-outlive-choices",
        "preemption.core.core",
        "chosen not in (None, _kind(ask))",
        "False",
        3,
    ),
    _bug("void-answers-are-taken", CORE, VOID, "            pass\n", 3, 3),
)
TOGETHER = {"answers-outlive-choices", "void-answers-are-taken"}


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug, oracle, tmp_path):
    seed, shards = bug.first
    given = preempt_world(seed, kinds=MANY) if bug.name in TOGETHER else preempt_world(seed)
    with planted(bug):
        made = played(given, tmp_path, shards, True, LASTS_S)
    assert wrong(given, made, oracle)


def test_a_node_with_victims_of_a_lost_nomination_is_no_candidate(oracle, tmp_path, monkeypatch):
    monkeypatch.setattr(preemption_runs, "GRACE_MS", 6_000)
    given, alone = preempt_world(29, kinds=MANY), "if pod not in state.victims_of)"
    assert wrong(given, played(given, tmp_path, 1, True, LASTS_S), oracle) == []
    with planted(_bug("in-vain", PROMISED, alone, "if pod < 0)", 29)):
        made = played(given, tmp_path, 1, True, LASTS_S)
    assert wrong(given, made, oracle)
