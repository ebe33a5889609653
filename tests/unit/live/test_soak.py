"""The rules of `make soak`: each fault is found, and a good run passes."""

from typing import Any

import pytest

from tests.soak.budgets import GUARDED, Budgets
from tests.soak.history_checks import PART_S, Judge
from tests.soak.process_samples import Sample, growth
from tests.unit.live.history import Change, History, two_nodes

APP = GUARDED[0]


def judged(history: History) -> Judge:
    judge = Judge()
    judge.take(history.changes)
    return judge


def test_a_good_run():
    history = two_nodes()
    for name in ("one", "two"):
        history.pod(name)
        history.bind(name, "node-a")
    judge = judged(history)
    assert (judge.problems, judge.overs, judge.in_part()) == ([], [], [])
    assert (judge.created.total(), judge.bound.total(), list(judge.waits_s)) == (2, 2, [1.0, 1.0])


def test_a_node_that_is_above_its_allocatable():
    history = two_nodes()
    for name in ("one", "two", "three"):
        history.bind(name, "node-a")
    (over,) = judged(history).overs
    assert (over.pod, over.node, over.what) == ("default/three", "node-a", ("cpu",))


def test_a_pod_that_moves():
    history = two_nodes()
    history.bind("one", "node-a")
    history.bind("one", "node-b")
    assert judged(history).problems == ["default/one moved from node-a to node-b"]


def test_a_pod_without_any_message():
    history = two_nodes()
    history.pod("one")
    history.waits("two", "why")
    judge = judged(history)
    assert (judge.silent(), len(judge.waiting())) == (["default/one"], 2)


def test_a_gang_in_part_at_the_end_and_while_it_lived():
    history = two_nodes()
    history.workload("team", 2)
    history.member("first")
    history.member("second")
    history.bind("first", "node-a")
    history.changes[-1].value["spec"]["workloadRef"] = {"name": "team", "podGroup": "all"}
    assert judged(history).in_part() == ["default/team/all"]
    history.now_s += PART_S
    history.store("pods/default/second", None)
    assert judged(history).problems == ["default/team/all was bound in part for 61 s"]


def guarded(number: int, is_ready: bool = True) -> tuple[str, Any]:
    ready = {"type": "Ready", "status": "True" if is_ready else "False"}
    metadata = {"name": f"pod-{number}", "uid": f"uid-{number}", "labels": {"app": APP}}
    value = {"metadata": metadata, "status": {"conditions": [ready]}}
    return f"/registry/pods/default/pod-{number}", value


@pytest.mark.parametrize(("ready", "breaches"), [(3, 0), (2, 1)])
def test_an_eviction_beyond_a_budget(ready: int, breaches: int):
    status = {"status": {"desiredHealthy": 2, "disruptionsAllowed": 1}}
    found: list[tuple[str, Any]] = [(f"/registry/poddisruptionbudgets/default/{APP}", status)]
    found += [guarded(number, number < ready) for number in range(3)]
    found.append((guarded(0)[0], None))
    budgets = Budgets()
    budgets.take(Change(number, key, value, 0.0) for number, (key, value) in enumerate(found))
    assert (budgets.evicted, len(budgets.breaches)) == (1, breaches)


@pytest.mark.parametrize(("per_sample", "is_flat"), [(0.0, True), (2.0, False)])
def test_memory_that_grows(per_sample: float, is_flat: bool):
    samples = [
        Sample(10.0 * number, "m", 160 + per_sample * number, 50, 8, 20.0, 1.0, 1, 1, 1)
        for number in range(40)
    ]
    flat = {one.what: one.is_flat for one in growth(samples, warm_up_s=60)}
    assert flat == {"rss_mib": is_flat, "fds": True, "run_mib": True}
