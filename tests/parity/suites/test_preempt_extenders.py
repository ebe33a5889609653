"""`muster score` lets HTTP extenders change the victims as kube-scheduler does: drawn cases, and
extenders that fail or contradict each other.
"""

from collections import Counter
from typing import Any

import pytest

from muster.explain.scoring import score_case
from shared.kubernetes.objects.errors import WorldError
from tests.parity.generators.extenders import preempting_case
from tests.parity.generators.kinds import IN_CI
from tests.parity.generators.preemption import differences
from tests.parity.oracle.extender_server import (
    ACCUSES,
    BABBLES,
    BREAKS,
    FAILS,
    INVENTS,
    SLEEPS,
    SPARES,
    ExtenderServer,
)
from tests.parity.planted.patching import planted
from tests.simulation.planted import Bug
from tests.support.builders import PodBuilder, make_node, make_pod

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
    ours: Any = score_case(asked)
    found = differences(asked, ours, theirs)
    for mine, other in zip(ours["pods"], theirs["pods"], strict=True):
        pair = (mine.get("preemption") or {}, other.get("preemption") or {})
        found += [
            f"{key}: {one}"
            for key in ("best", "evicted")
            if len(one := {str(answer.get(key)) for answer in pair}) > 1
        ]
    return found


def test_extenders_get_the_same_questions_and_decide_the_same(answered, extender):
    seen: Counter[str] = Counter()
    for seed, (asked, theirs, calls) in zip(SEEDS, answered, strict=True):
        assert "error" not in theirs, f"seed {seed}: {theirs}"
        extender.asked.clear()
        assert differ(asked, theirs) == [], f"seed {seed}"
        assert sorted(extender.asked) == calls, f"seed {seed}"
        seen["calls"] += len(calls)
        for pod in theirs["pods"]:
            found = pod.get("preemption") or {"message": "", "best": ""}
            seen["no candidate left"] += found["message"] == NOBODY_LEFT
            if found["best"]:
                victims = found["candidates"][found["best"]]["victims"]
                seen["fewer go"] += len(found["evicted"]) < len(victims)
    assert seen["calls"] >= 200, seen
    assert len(seen) == 3
    assert all(count >= 10 for count in seen.values()), seen


def _bug(name: str, module: str, old: str, new: str) -> Bug:
    return Bug(name, module, (old, new))


BUGS = (
    _bug("uninterested-extenders-asked", CALLS, "not one.preempts(pod)", "False"),
    _bug(
        "each-extender-gets-all-victims",
        CALLS,
        "victims_asked(one, pod, left, objects)",
        "victims_asked(one, pod, dict(found), objects)",
    ),
    _bug(
        "last-reply-ignored",
        CALLS,
        "left = preempted(one, reply, there)",
        "preempted(one, reply, there)",
    ),
    _bug("violations-are-lost", RULES, "Victims(uids, one.numpdbviolations)", "Victims(uids)"),
    _bug(
        "nodes-without-victims-stay",
        RULES,
        "for node, one in found.items() if one.uids}",
        "for node, one in found.items()}",
    ),
    _bug("ignorable-errors-raised", CALLS, "if not one.ignorable:\n                raise", "raise"),
    _bug("victims-of-other-nodes-accepted", RULES, "if uid not in there[node]:", "if False:"),
    _bug(
        "highest-is-highest",
        "shared.model.preemption.victims",
        "        priorities[0],",
        "        highest,",
    ),
    _bug(
        "no-candidate-left-not-reported",
        SCORE,
        'no_victims(f"preemption: {NO_CANDIDATE_LEFT}")',
        "_preemption()",
    ),
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
    node = make_node("a").capacity(cpu="1", memory="8Gi", pods="10").obj()

    def pod(name: str, level: str) -> PodBuilder:
        builder = make_pod(name).metadata(uid=f"u-{name}").requests(cpu="1")
        return builder.spec(priorityClassName=level)

    placed = pod("placed", "low").node("a")
    placed.status(phase="Running", startTime="2026-01-02T03:00:00Z")
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
    asked = {
        "objects": [*classes, node, placed.obj()],
        "pods": [pod("p", "high").obj()],
        "config": config,
    }
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
def test_an_ignorable_extender_is_ignored(manner, oracle, extender):
    asked = one_case(extender.url, manner, httpTimeout="300ms", ignorable=True)
    theirs = oracle.ask(asked)
    assert "error" not in theirs, theirs
    assert differ(asked, theirs) == []
