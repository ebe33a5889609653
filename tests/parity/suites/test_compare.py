"""The comparison finds every difference that counts, and the shrinker keeps its cause."""

import copy

import pytest

from tests.parity.comparison.compare import differences
from tests.parity.comparison.muster_answer import our_answer
from tests.parity.comparison.shrink import shrunk
from tests.parity.generators.cases import case


def refused(*reasons: str) -> dict:
    node = {"feasible": False, "code": "Unschedulable", "plugin": "NodeResourcesFit"}
    return node | {"reasons": [*reasons], "scores": {}, "total": 0}


def scored(**scores: int) -> dict:
    node = {"feasible": True, "code": "Success", "plugin": "", "reasons": []}
    return node | {"scores": scores, "total": sum(scores.values())}


def answer(**nodes: dict) -> dict:
    passed = {"code": "Success", "reasons": [], "plugin": ""}
    pod = {"namespace": "default", "name": "p", "preFilterStatus": passed, "nodes": nodes}
    return {"pods": [pod | {"fitError": "", "best": []}]}


def test_equal_answers_do_not_differ():
    assert differences(answer(a=scored(Fit=1)), answer(a=scored(Fit=1))) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("namespace",), "other"),
        (("preFilterStatus", "plugin"), "NodeAffinity"),
        (("fitError",), "0/1 nodes are available: none."),
        (("best",), ["a"]),
        (("nodes", "a", "feasible"), True),
        (("nodes", "a", "code"), "UnschedulableAndUnresolvable"),
        (("nodes", "a", "plugin"), ""),
        (("nodes", "a", "reasons"), ["Insufficient cpu"]),
        (("nodes", "b", "scores", "Fit"), 41),
        (("nodes", "b", "scores", "NodeAffinity"), 0),
        (("nodes", "b", "total"), 43),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_each_field_counts(path, value):
    ours = answer(a=refused("Too many pods", "Insufficient cpu"), b=scored(Fit=42))
    theirs = copy.deepcopy(ours)
    place = theirs["pods"][0]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert len(differences(ours, theirs)) == 1


def test_extended_resources_come_in_any_order_and_no_others():
    one, other = "Insufficient example.com/a", "Insufficient hugepages-2Mi"
    assert not differences(answer(a=refused(one, other)), answer(a=refused(other, one)))
    assert differences(answer(a=refused(one)), answer(a=refused(other)))
    cpu, memory = "Insufficient cpu", "Insufficient memory"
    assert differences(answer(a=refused(cpu, memory)), answer(a=refused(memory, cpu)))


def test_a_plugin_that_is_passed_over_must_score_nothing():
    assert not differences(answer(a=scored(Fit=1)), answer(a=scored(Fit=1, DynamicResources=0)))
    assert differences(answer(a=scored(Fit=1)), answer(a=scored(Fit=1, DynamicResources=2)))
    assert differences(answer(a=scored(Fit=1)), answer(a=scored(Fit=1, ImageLocality=0)))


def test_a_missing_node_pod_or_answer_is_a_difference():
    ours = answer(a=scored(Fit=1))
    assert differences(ours, answer(a=scored(Fit=1), b=scored(Fit=1)))
    assert differences(ours, {"pods": []})
    assert differences(ours, {"error": "cannot be"})


def test_a_shrunk_case_keeps_what_it_is_about():
    def holds(candidate: dict) -> bool:
        return any(
            "Too many pods" in node["reasons"]
            for pod in our_answer(candidate).get("pods", ())
            for node in pod["nodes"].values()
        )

    seed = next(seed for seed in range(100) if holds(case(seed)) and len(case(seed)["pods"]) > 1)
    found = shrunk(case(seed), holds)
    node, *there = found["objects"]
    taken = int(node["status"]["allocatable"].get("pods", 0))
    assert [one["kind"] for one in there] == ["Pod"] * taken, "as many as fill it, and nothing else"
    assert len(found["pods"]) == 1
    assert holds(found)
