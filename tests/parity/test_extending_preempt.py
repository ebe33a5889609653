"""`muster score` lets HTTP extenders have their say about who goes for a pod, as kube-scheduler
does: drawn cases, and extenders that fail or contradict.
"""

from collections import Counter
from typing import Any

import pytest

from muster.explain.scoring import score_case
from shared.kubernetes.objects.errors import WorldError
from tests.parity.extender_server import (
    ACCUSES,
    BABBLES,
    BREAKS,
    FAILS,
    INVENTS,
    SLEEPS,
    SPARES,
    ExtenderServer,
)
from tests.parity.extending import preempting_case
from tests.parity.kinds import IN_CI
from tests.parity.planted import planted
from tests.parity.preempting import differences
from tests.simulation.planted import Bug

SEEDS = range(IN_CI["preempt-extenders"])
NOBODY_LEFT = "no new claims to deallocate, preemption: no candidate node for preemption"
RULES, CALLS = "shared.extenders.values", "shared.extenders.calls"
SCORE = "muster.explain.scoring"


@pytest.fixture(scope="module")
def extender():
    server = ExtenderServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def answered(oracle, extender):
    """(case, kube-scheduler's answer, what it asked)"""
    found = []
    for seed in SEEDS:
        asked = preempting_case(seed, extender.url)
        extender.asked.clear()
        theirs = oracle.ask(asked)
        found.append((asked, theirs, sorted(extender.asked)))
    return found


def differ(asked: Any, theirs: Any) -> list[str]:
    ours = score_case(asked)
    found = differences(asked, ours, theirs)
    for mine, other in zip(ours["pods"], theirs["pods"], strict=True):
        pair = (mine.get("preemption") or {}, other.get("preemption") or {})
        found += [
            f"{key}: {one}"
            for key in ("best", "evicted")
            if len(one := {str(answer.get(key)) for answer in pair}) > 1
        ]
    return found


def test_they_are_asked_the_same_and_decide_the_same(answered, extender):
    seen: Counter[str] = Counter()
    for seed, (asked, theirs, calls) in zip(SEEDS, answered, strict=True):
        assert "error" not in theirs, f"seed {seed}: {theirs}"
        extender.asked.clear()
        assert differ(asked, theirs) == [], f"seed {seed}"
        assert sorted(extender.asked) == calls, f"seed {seed}"
        seen["calls"] += len(calls)
        for pod in theirs["pods"]:
            found = pod.get("preemption") or {"message": "", "best": ""}
            seen["nobody is left"] += found["message"] == NOBODY_LEFT
            if found["best"]:
                victims = found["candidates"][found["best"]]["victims"]
                seen["fewer go"] += len(found["evicted"]) < len(victims)
    assert seen["calls"] >= 200, seen
    assert len(seen) == 3
    assert all(count >= 10 for count in seen.values()), seen


def _bug(name: str, module: str, old: str, new: str) -> Bug:
    return Bug(name, module, (old, new))


BUGS = (
    _bug("everybody-is-asked", CALLS, "not one.preempts(pod)", "False"),
    _bug(
        "each-is-told-all",
        CALLS,
        "victims_asked(one, pod, left, objects)",
        "victims_asked(one, pod, dict(found), objects)",
    ),
    _bug(
        "the-last-word-is-lost",
        CALLS,
        "left = preempted(one, reply, there)",
        "preempted(one, reply, there)",
    ),
    _bug("violations-are-lost", RULES, "Victims(uids, one.numpdbviolations)", "Victims(uids)"),
    _bug(
        "spared-nodes-stay",
        RULES,
        "for node, one in found.items() if one.uids}",
        "for node, one in found.items()}",
    ),
    _bug("nobody-may-be-ignored", CALLS, "if not one.ignorable:\n                raise", "raise"),
    _bug("strangers-go", RULES, "if uid not in there[node]:", "if False:"),
    _bug(
        "highest-is-highest", "shared.model.victims", "        priorities[0],", "        highest,"
    ),
    _bug("nobody-left-is-not-said", SCORE, 'nobody(f"preemption: {NOBODY_LEFT}")', "_preemption()"),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug, answered, extender):
    def noticed(asked: Any, theirs: Any, calls: Any) -> bool:
        extender.asked.clear()
        try:
            return bool(differ(asked, theirs)) or sorted(extender.asked) != calls
        except (WorldError, LookupError, ValueError):
            return True

    with planted(bug):
        assert any(noticed(*one) for one in answered)


def one_case(url: str, manner: str, **more: object) -> dict:
    """A node that is full of one pod, and a pod that would like to take its place."""
    amounts = {"cpu": "1", "memory": "8Gi", "pods": "10"}
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}
    node["status"] = {"allocatable": amounts, "capacity": amounts}

    def pod(name: str, level: str, **spec: object) -> dict:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        made = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "uid": f"u-{name}"}}
        return made | {"spec": {"containers": [container], "priorityClassName": level, **spec}}

    placed = pod("placed", "low", nodeName="a")
    placed["status"] = {"phase": "Running", "startTime": "2026-01-02T03:00:00Z"}
    extender = {"urlPrefix": f"{url}/x-{manner}", "preemptVerb": "preempt", "httpTimeout": "60s"}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [extender | more],
    }
    classes = [
        {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "value": value}
        | {"metadata": {"name": name}}
        for name, value in (("low", 1), ("high", 9))
    ]
    asked = {"objects": [*classes, node, placed], "pods": [pod("p", "high")], "config": config}
    return asked | {"preempt": True}


@pytest.mark.parametrize("knows", [True, False], ids=["uids", "pods"])
@pytest.mark.parametrize("manner", [BREAKS, INVENTS, SPARES, ACCUSES])
def test_a_failure_ends_it_in_kube_schedulers_words(manner, knows, oracle, extender):
    asked = one_case(extender.url, manner, nodeCacheCapable=knows)
    theirs = oracle.ask(asked)["error"].partition("default/p: ")[2]
    assert theirs
    with pytest.raises(WorldError) as raised:
        score_case(asked)
    assert str(raised.value) == f"case: Pod default/p: {theirs}"


@pytest.mark.parametrize("manner", [FAILS, BREAKS, INVENTS, SPARES, ACCUSES, BABBLES, SLEEPS])
def test_who_may_be_ignored_is(manner, oracle, extender):
    asked = one_case(extender.url, manner, httpTimeout="300ms", ignorable=True)
    theirs = oracle.ask(asked)
    assert "error" not in theirs, theirs
    assert differ(asked, theirs) == []
