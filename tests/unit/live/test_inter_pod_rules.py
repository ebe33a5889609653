"""The live checker's inter-pod rules: each reason, and cases without one."""

from typing import Any

import pytest

from tests.live.checker.fits import CannotJudge
from tests.live.checker.inter_pod_rules import (
    NO_KEY,
    NOT_NEAR,
    NOT_WANTED,
    REQUIRED,
    TOO_NEAR,
    UNEVEN,
    Around,
)
from tests.unit.live.history import History

ZONE = "zone"
NAMESPACES = {"default": {"team": "a"}, "other": {"team": "b"}}


def node(name: str, zone: str = "", taints: Any = ()) -> Any:
    labels = {"host": name, **({ZONE: zone} if zone else {})}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}


NODES = [node("a1", "a"), node("a2", "a"), node("b1", "b")]


def pod(name: str, role: str = "web", namespace: str = "default", **spec: Any) -> Any:
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": {"role": role}}
    return {"metadata": metadata, "spec": spec}


def term(key: str = ZONE, role: str = "web", **more: Any) -> Any:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"role": role}}, **more}


def apart(*terms: Any) -> Any:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def near(*terms: Any) -> Any:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def even(skew: int = 1, **more: Any) -> Any:
    rule = {**term(), "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **more}
    return {"topologySpreadConstraints": [rule]}


def said(one: Any, *stand: tuple[Any, int], nodes: Any = NODES) -> list[str]:
    around = Around(one, nodes, [(other, nodes[at]) for other, at in stand], NAMESPACES)
    return [around.why_not(node) for node in nodes]


def test_anti_affinity_is_heeded_by_both():
    shy, plain = pod("shy", "shy", **apart(term())), pod("plain")
    assert said(shy, (plain, 0)) == [TOO_NEAR, TOO_NEAR, ""]
    assert said(plain, (shy, 2)) == ["", "", NOT_WANTED]
    assert said(pod("else", "db"), (shy, 2)) == ["", "", ""]


def test_affinity_wants_all_its_terms_of_one_pod_or_none_anywhere():
    both = near(term(), term("host"))
    assert said(pod("next", "db", **both), (pod("web"), 0)) == ["", NOT_NEAR, NOT_NEAR]
    assert said(pod("next", "db", **both)) == [NOT_NEAR] * 3
    # It would be near itself: it may be the first.
    assert said(pod("first", **both)) == ["", "", ""]
    assert said(pod("second", **near(term())), (pod("web"), 2)) == [NOT_NEAR, NOT_NEAR, ""]
    assert said(pod("first", **near(term())), nodes=[node("bare")]) == [NOT_NEAR]


def test_a_term_is_about_its_own_namespace_unless_it_says_others():
    there = pod("web", namespace="other")
    assert said(pod("shy", **apart(term())), (there, 0)) == ["", "", ""]
    named = apart(term(namespaces=["other"]))
    assert said(pod("shy", **named), (there, 0))[0] == TOO_NEAR
    chosen = apart(term(namespaceSelector={"matchLabels": {"team": "b"}}))
    assert said(pod("shy", **chosen), (there, 0))[0] == TOO_NEAR
    assert said(pod("shy", **chosen), (pod("web"), 0)) == ["", "", ""]
    everywhere = apart(term(namespaceSelector={}))
    assert said(pod("shy", **everywhere), (there, 0))[0] == TOO_NEAR


@pytest.mark.parametrize(
    "rule", [{"operator": "NotIn", "values": ["b"]}, {"operator": "DoesNotExist"}]
)
def test_a_pending_pods_negative_namespace_selector_selects_all_namespaces(rule: Any):
    """Those that stand mean what they say."""
    chosen = term(namespaceSelector={"matchExpressions": [{"key": "team", **rule}]})
    there = pod("web", namespace="other")
    assert said(pod("shy", **apart(chosen)), (there, 0)) == [TOO_NEAR, TOO_NEAR, ""]
    assert said(pod("next", **near(chosen)), (there, 0)) == ["", "", NOT_NEAR]
    assert said(pod("web", namespace="other", **near(chosen))) == ["", "", ""]
    assert said(there, (pod("shy", **apart(chosen)), 0)) == ["", "", ""]


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {}}, {"matchExpressions": []}])
def test_an_empty_selector_counts_no_pod(selector: Any):
    rule = even(labelSelector=selector)
    assert said(pod("next", **rule), (pod("web"), 0), (pod("more"), 0)) == ["", "", ""]


def test_spread_counts_domains_of_nodes_that_count():
    web = pod("web")
    assert said(pod("next", **even()), (web, 0)) == [UNEVEN, UNEVEN, ""]
    assert said(pod("next", **even(2)), (web, 0)) == ["", "", ""]
    assert said(pod("next", **even()), (web, 0), nodes=[*NODES, node("bare")])[3] == NO_KEY
    leaving = pod("gone")
    leaving["metadata"]["deletionTimestamp"] = "now"
    assert said(pod("next", **even()), (leaving, 0)) == ["", "", ""]
    # Fewer domains than wanted: the least counts as 0.
    assert said(pod("next", **even(minDomains=3)), (web, 0), (web, 2)) == [UNEVEN] * 3


def test_spread_leaves_out_nodes_that_the_pod_cannot_be_on():
    only_a = {"nodeSelector": {ZONE: "a"}, **even()}
    assert said(pod("next", **only_a), (pod("web"), 0))[:2] == ["", ""]
    nodes = [NODES[0], node("b1", "b", [{"key": "no", "effect": "NoSchedule"}])]
    web = pod("web")
    assert said(pod("next", **even()), (web, 0), nodes=nodes) == [UNEVEN, ""]
    honor = even(nodeTaintsPolicy="Honor")
    assert said(pod("next", **honor), (web, 0), nodes=nodes)[0] == ""


@pytest.mark.parametrize("rule", [{"matchLabelKeys": ["x"]}, {"mismatchLabelKeys": ["x"]}])
def test_unknown_rules_are_not_checked(rule: Any):
    with pytest.raises(CannotJudge):
        said(pod("next", **near(term(**rule))))


def zoned(history: History, name: str, zone: str) -> None:
    history.node(name)
    history.changes[-1].value["metadata"]["labels"] = {ZONE: zone}


def test_a_waiting_pod_says_which_rule_it_waits_for():
    history = History()
    zoned(history, "a1", "a")
    history.waits("lonely", f"0/1 nodes are available: 1 {NOT_NEAR}.")
    history.changes[-1].value["spec"].update(near(term(role="nobody")))
    assert history.verdict().problems == []
    history.waits("lonely", f"0/1 nodes are available: 1 {TOO_NEAR}.")
    history.changes[-1].value["spec"].update(near(term(role="nobody")))
    (problem,) = history.verdict().problems
    assert f'true is "0/1 nodes are available: 1 {NOT_NEAR}."' in problem


def test_a_bind_that_breaks_anti_affinity_is_listed():
    history = History()
    zoned(history, "a1", "a")
    history.know_nodes(2000, "a1")
    for name in ("one", "two"):
        history.pod(name)
    history.know_pods("one", "two")
    history.reserve(("one", "a1"), ("two", "a1"))
    for name in ("one", "two"):
        history.bind(name, "a1")
        bound = history.changes[-1].value
        bound["metadata"]["labels"] = {"role": "web"}
        bound["spec"].update(apart(term()))
    (race,) = history.verdict().races
    assert (race.pod, race.resources) == ("default/two", (TOO_NEAR,))
