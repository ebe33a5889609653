"""Inter-pod rules as they are read: what a case may say, and what is refused."""

import pytest

from muster.explain.scoring import score_case
from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.pod_rules import affinity_of, spread_of
from shared.model.objects import PodTerm, PreferredPodTerm, Requirement, SpreadConstraint
from tests.parity.suites.builders import node, pod

WEB = {"matchLabels": {"app": "web"}}
WEB_LABELS = {"labels": WEB["matchLabels"]}
IS_WEB = (Requirement("app", "In", ("web",)),)
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"


def spread(*rules, **labels):
    return spread_of(Fields("case", "spec", {"topologySpreadConstraints": list(rules)}), labels)


def constraint(**more):
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return rule | more


def affinity(value, **labels):
    return affinity_of(Fields("case", "spec", {"affinity": value}), labels)


def test_a_constraint_with_what_an_api_server_adds():
    assert spread(constraint(labelSelector=WEB)) == (SpreadConstraint("zone", 1, True, IS_WEB),)
    soft = constraint(
        whenUnsatisfiable="ScheduleAnyway",
        nodeAffinityPolicy="Ignore",
        nodeTaintsPolicy="Honor",
        labelSelector={},
    )
    assert spread(soft) == (SpreadConstraint("zone", 1, False, (), 1, False, True),)


def test_match_label_keys_are_part_of_the_selector_where_the_pod_has_them():
    rule = constraint(labelSelector=WEB, matchLabelKeys=["hash", "absent"])
    (found,) = spread(rule, hash="x")
    assert found.selector == (*IS_WEB, Requirement("hash", "In", ("x",)))
    term = {"topologyKey": "zone", "labelSelector": WEB, "mismatchLabelKeys": ["hash"]}
    (required, _, _) = affinity({"podAffinity": {HARD: [term]}}, hash="x")
    assert required[0].selector == (*IS_WEB, Requirement("hash", "NotIn", ("x",)))


def test_terms_of_all_four_kinds():
    term = {"topologyKey": "zone", "labelSelector": WEB, "namespaces": ["b", "a", "b"]}
    any_namespace = {"topologyKey": "host", "namespaceSelector": {}}
    found = affinity(
        {
            "podAffinity": {HARD: [term], SOFT: [{"weight": 3, "podAffinityTerm": term}]},
            "podAntiAffinity": {
                HARD: [any_namespace],
                SOFT: [{"weight": 5, "podAffinityTerm": any_namespace}],
            },
        }
    )
    near = PodTerm("zone", IS_WEB, ("a", "b"))
    far = PodTerm("host", None, (), ())
    preferred = (PreferredPodTerm(3, near), PreferredPodTerm(-5, far))
    assert found == ((near,), (far,), preferred)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (constraint(maxSkew=0), "maxSkew: 0 is not within 1.."),
        ({"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}, "maxSkew: is required"),
        ({"maxSkew": 1, "topologyKey": "zone"}, "whenUnsatisfiable: is required"),
        (constraint(whenUnsatisfiable="Never"), "whenUnsatisfiable: 'Never' is not one of"),
        (constraint(topologyKey=""), "topologyKey: is required"),
        (
            constraint(whenUnsatisfiable="ScheduleAnyway", minDomains=2),
            "minDomains: needs whenUnsatisfiable DoNotSchedule",
        ),
        (constraint(nodeTaintsPolicy="Perhaps"), "nodeTaintsPolicy: 'Perhaps' is not one of"),
        (constraint(matchLabelKeys=["a"]), "matchLabelKeys: needs a labelSelector"),
        (constraint(skew=1), "skew: is an unknown field"),
        (
            constraint(labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt"}]}),
            "operator: 'Gt' is not one of",
        ),
    ],
)
def test_a_constraint_that_no_api_server_takes(rule, text):
    asked = pod("p", topologySpreadConstraints=[rule])
    with pytest.raises(WorldError, match=r"topologySpreadConstraints\[0\]") as raised:
        score_case({"objects": [node("a")], "pods": [asked]})
    assert text in str(raised.value)


def test_a_key_has_one_constraint_of_each_kind():
    soft = constraint(whenUnsatisfiable="ScheduleAnyway")
    assert len(spread(constraint(), soft)) == 2
    with pytest.raises(WorldError, match=r"\[1\].topologyKey: is a duplicate"):
        spread(constraint(), constraint(maxSkew=2))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"podAffinity": {"required": []}}, "required: is an unknown field"),
        ({"podAffinity": {HARD: [{}]}}, "topologyKey: is required"),
        ({"podAntiAffinity": {SOFT: [{"podAffinityTerm": {}}]}}, "weight: is required"),
        ({"podAntiAffinity": {SOFT: [{"weight": 101}]}}, "weight: 101 is not within 1..100"),
        (
            {"podAffinity": {HARD: [{"topologyKey": "z", "mismatchLabelKeys": ["a"]}]}},
            "mismatchLabelKeys: needs a labelSelector",
        ),
    ],
)
def test_a_term_that_no_api_server_takes(value, text):
    with pytest.raises(WorldError) as raised:
        affinity(value)
    assert text in str(raised.value)


def by_default(*objects, labels=WEB_LABELS["labels"], **metadata):
    """Return the weighted spread score of each node for a pod without constraints."""
    asked, there = pod("p"), pod("there", nodeName="a")
    asked["metadata"] |= {"labels": labels} | metadata
    there["metadata"] |= WEB_LABELS
    nodes = [node(name) for name in "ab"]
    for one in nodes:
        one["metadata"]["labels"] = {"kubernetes.io/hostname": one["metadata"]["name"]}
    answer = score_case({"objects": [*nodes, there, *objects], "pods": [asked]})["pods"][0]
    scores = (one["scores"].get("PodTopologySpread") for one in answer["nodes"].values())
    return tuple(scores)


def made(kind, selector, version="apps/v1"):
    metadata = {"name": "own", "namespace": "default"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": selector}


def test_what_a_service_or_a_controller_selects_is_spread_by_default():
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "own", "controller": True}
    assert by_default() == (None, None)
    service = made("Service", {"selector": {"app": "web"}}, "v1")
    spread = by_default(service)
    assert spread[0] < spread[1] == 200
    assert by_default(service, labels={"app": "other"}) == (None, None)
    assert by_default(made("Service", {}, "v1")) == (None, None)
    replicas = made("ReplicaSet", {"selector": WEB})
    assert by_default(replicas) == (None, None)
    assert by_default(replicas, ownerReferences=[owner]) == spread
    assert by_default(replicas, ownerReferences=[owner | {"controller": False}]) == (None, None)
    other = owner | {"apiVersion": "example.com/v1"}
    assert by_default(replicas, ownerReferences=[other]) == (None, None)
