"""The checker's inter-pod rules, case by case."""

from typing import Any

import pytest

from muster.checker.filters.fits import Load
from muster.checker.filters.inter_pod_rules import Around, Neighbours, named
from shared.model.objects import Node, PodSpec, PodTerm, Requirement, SpreadConstraint
from shared.model.release import V1_36, V1_37
from tests.support.builders import model_node

HOST, ZONE = "host", "zone"
WEB, DB = (("app", "web"),), (("app", "db"),)
IS_WEB = (Requirement("app", "In", ("web",)),)


def node(name: str, **labels: str) -> Node:
    return model_node(name).labels({HOST: name}, **labels).obj()


A, B, C = node("a", zone="x"), node("b", zone="x"), node("c", zone="y")
BARE = Node(uid="d", name="d")


def pod(labels=WEB, namespace="default", terminating=False, **rules) -> PodSpec:
    return named(PodSpec(**rules), namespace, labels, terminating)


def free(
    spec: PodSpec,
    *pods: tuple[PodSpec, Node],
    nodes=(A, B, C, BARE),
    namespaces=None,
    version=V1_36,
) -> str:
    """Return the names of the nodes that no rule keeps the pod off."""
    loads = {one.name: Load() for one in nodes}
    for number, (there, where) in enumerate(pods):
        loads[where.name].add(number, there)
    standing = [(one, loads[one.name]) for one in nodes]
    around = Around(spec, Neighbours(standing, namespaces, version))
    return "".join(one.name for one in nodes if around.obstacle(one) is None)


def term(key=ZONE, selector=IS_WEB, namespaces=(), namespace_selector=None) -> PodTerm:
    return PodTerm(key, selector, namespaces, namespace_selector)


def test_without_rules_every_node_is_free():
    assert free(pod(), (pod(), A)) == "abcd"


@pytest.mark.parametrize(
    ("there", "found"),
    [(pod(), "cd"), (pod(DB), "abcd"), (pod(namespace="other"), "abcd")],
)
def test_anti_affinity_excludes_the_domain_of_matching_pods(there, found):
    spec = pod(DB, pod_anti_affinity=(term(),))
    assert free(spec, (there, A)) == found


def test_anti_affinity_of_running_pods_counts_too():
    away = pod(DB, pod_anti_affinity=(term(HOST),))
    assert free(pod(), (away, A)) == "bcd"
    assert free(pod(DB), (away, A)) == "abcd"


def test_namespaces_are_named_selected_or_the_pods():
    colour = (Requirement("colour", "In", ("red",)),)
    spec = pod(pod_anti_affinity=(term(HOST, namespaces=("n",), namespace_selector=colour),))
    red = {"r": (("colour", "red"),)}
    for namespace, found in (("n", "bcd"), ("r", "bcd"), ("default", "abcd"), ("x", "abcd")):
        assert free(spec, (pod(namespace=namespace), A), namespaces=red) == found
    anywhere = pod(pod_anti_affinity=(term(HOST, namespace_selector=()),))
    assert free(anywhere, (pod(namespace="x"), A)) == "bcd"
    by_name = (Requirement("kubernetes.io/metadata.name", "In", ("x",)),)
    named_x = pod(pod_anti_affinity=(term(HOST, namespace_selector=by_name),))
    assert free(named_x, (pod(namespace="x"), A)) == "bcd"


@pytest.mark.parametrize(("operator", "values"), [("NotIn", ("red",)), ("DoesNotExist", ())])
def test_until_1_36_a_pending_pods_negative_selector_selects_all_namespaces(operator, values):
    """Terms of assigned pods are taken literally."""
    red = {"r": (("colour", "red"),), "default": ()}
    other = (Requirement("colour", operator, values),)
    away = {"pod_anti_affinity": (term(HOST, namespace_selector=other),)}
    assert free(pod(**away), (pod(namespace="r"), A), namespaces=red) == "bcd"
    near = pod(DB, pod_affinity=(term(HOST, namespace_selector=other),))
    assert free(near, (pod(namespace="r"), A), namespaces=red) == "a"
    alone = pod(namespace="r", pod_affinity=(term(HOST, namespace_selector=other),))
    assert free(alone, namespaces=red) == "abc"
    assert free(pod(namespace="r"), (pod(DB, **away), A), namespaces=red) == "abcd"
    assert free(pod(), (pod(DB, **away), A), namespaces=red) == "bcd"
    since: dict[str, Any] = {"namespaces": red, "version": V1_37}
    assert free(pod(**away), (pod(namespace="r"), A), **since) == "abcd"
    assert free(pod(**away), (pod(), A), **since) == "bcd"
    assert free(near, (pod(namespace="r"), A), **since) == ""
    assert free(near, (pod(), A), **since) == "a"
    assert free(alone, **since) == ""


def test_affinity_wants_one_pod_that_matches_all_terms():
    spec = pod(DB, pod_affinity=(term(), term(HOST)))
    assert free(spec, (pod(), A)) == "a"
    assert free(spec, (pod(DB), A)) == ""
    assert free(spec) == "", "it does not mean itself"


def test_the_first_of_its_kind_may_be_anywhere_that_has_the_key():
    spec = pod(pod_affinity=(term(),))
    assert free(spec) == "abc"
    assert free(spec, (pod(), C)) == "c"


def spread(max_skew=1, **more) -> tuple[SpreadConstraint, ...]:
    return (SpreadConstraint(ZONE, max_skew, selector=IS_WEB, **more),)


def test_spread_counts_the_pod_itself_and_the_emptiest_domain():
    assert free(pod(spread=spread()), (pod(), A)) == "c"
    assert free(pod(spread=spread(2)), (pod(), A)) == "abc"
    assert free(pod(DB, spread=spread()), (pod(), A)) == "abc"
    assert free(pod(spread=spread()), (pod(), A), (pod(), C)) == "abc"


def test_terminating_pods_and_those_of_other_namespaces_are_not_spread():
    for there in (pod(terminating=True), pod(namespace="other")):
        assert free(pod(spread=spread()), (there, A)) == "abc"


def test_an_empty_selector_counts_no_pod():
    rule = SpreadConstraint(ZONE, 1, selector=())
    assert free(pod(spread=(rule,)), (pod(), A), (pod(), A)) == "abc"


def test_too_few_domains_count_as_an_empty_one():
    both = ((pod(), A), (pod(), C))
    assert free(pod(spread=spread(min_domains=3)), *both) == ""


def test_nodes_that_the_pod_cannot_go_to_are_not_counted():
    only_x = (("zone", "x"),)
    assert free(pod(spread=spread(), node_selector=only_x), (pod(), A), (pod(), A)) == "abc"
    ignoring = spread(honor_affinity=False)
    assert free(pod(spread=ignoring, node_selector=only_x), (pod(), A), (pod(), A)) == "c"


def test_only_nodes_with_every_key_are_counted():
    lame = Node(uid="e", name="e", labels={ZONE: "z"})
    both = (*spread(), SpreadConstraint(HOST, 1, selector=IS_WEB))
    assert free(pod(spread=both), (pod(), A), nodes=(A, C, lame)) == "c"
    assert free(pod(spread=spread()), (pod(), A), nodes=(A, C, lame)) == "ce"
