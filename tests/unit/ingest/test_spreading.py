"""Selectors of services and controllers become part of pending pods' signatures, and follow their
objects.
"""

from typing import Any

import msgspec
import pytest

from services.ingest.core.pods.identity import spec_of
from shared.events.base import Configured
from shared.events.ingest import ObjectsGone, ObjectsSet, PodsPending, PodsRelabelled
from shared.events.observed import ObjectsDeletedSeen, ObjectsSeen
from shared.model.cluster_objects import (
    LabelSelector,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from shared.model.objects import PodSpec, Requirement, SpreadConstraint
from tests.unit.ingest.inputs import bound, gone, ids, ingest, names, nodes, one, pods

WEB = (("app", "web"), ("tier", "front"))
APP = Requirement("app", "In", ("web",))
TIER = Requirement("tier", "In", ("front",))
SERVICE = Service(uid="s", name="s", namespace="default", selector=(("app", "web"),))
REPLICAS = ReplicaSet(
    uid="r", name="r", namespace="default", selector=LabelSelector((("tier", "front"),))
)
OWN = "ReplicaSet/r"
CONSTRAINED = PodSpec(spread=(SpreadConstraint("zone", 1, selector=(TIER,)),))


def steps(*objects, **options) -> Any:
    made = ingest(**{"default_spread": True, **options})
    if objects:
        made.when(ObjectsSeen(objects))
    return made


def spec(made, name: str) -> PodSpec:
    slot = made.state.pods.slots[f"uid-{name}"]
    return spec_of(made.state, int(made.state.pods.sigs[slot]))


def test_services_and_the_controller_select_together():
    made = steps(SERVICE, REPLICAS)
    decided = made.when(pods("a", "b", labels=WEB, owner=OWN))
    assert names(decided) == ["SignatureDefined", "PodsNamed", "PodsPending"]
    found = spec(made, "a")
    assert found.spread_by == (APP, TIER)
    assert (found.namespace, found.labels) == ("default", WEB)


@pytest.mark.parametrize(
    "fields",
    [
        {"labels": (("app", "db"),)},
        {"labels": WEB, "namespace": "other", "owner": OWN},
        {"labels": WEB, "spec": CONSTRAINED},
        {"labels": WEB, "spec": PodSpec(scheduler="somebody")},
    ],
)
def test_unselected_pods_and_pods_with_constraints_are_unchanged(fields):
    made = steps(SERVICE, REPLICAS, schedulers=["default-scheduler"])
    made.when(pods("a", **fields))
    assert spec(made, "a").spread_by == ()


def test_no_default_spread_without_a_profile():
    made = steps(SERVICE, REPLICAS, default_spread=False)
    made.when(pods("a", labels=WEB, owner=OWN))
    assert spec(made, "a") == pods("a").spec
    assert not made.state.interest


def test_a_replication_controller_replaces_labels_of_services():
    other = ReplicationController(
        uid="c", name="c", namespace="default", selector=(("app", "own"), ("tier", "front"))
    )
    made = steps(SERVICE, other)
    made.when(pods("a", labels=WEB, owner="ReplicationController/c"))
    assert spec(made, "a").spread_by == (Requirement("app", "In", ("own",)), TIER)


def test_a_controllers_expressions_count():
    wide = Requirement("app", "Exists")
    selector = LabelSelector((), (wide,))
    made = steps(StatefulSet(uid="t", name="t", namespace="default", selector=selector))
    made.when(pods("t-0", labels=WEB, owner="StatefulSet/t"), pods("b", labels=WEB, owner=OWN))
    assert spec(made, "t-0").spread_by == (wide,)
    assert spec(made, "b").spread_by == ()


def test_pending_pods_follow_changes_of_services_and_controllers():
    made = steps()
    made.when(nodes("n"), pods("old", "waits", labels=WEB, on="n -", owner=OWN))
    decided = made.when(ObjectsSeen((SERVICE,)))
    kinds = ["ObjectsSet", *["SignatureDefined"] * 2, "PodsRelabelled", "SignatureRetired"]
    assert names(decided) == kinds
    assert spec(made, "waits").spread_by == (APP,)
    assert spec(made, "old").spread_by == ()
    assert spec(made, "old").labels == (("app", "web"),), "they are counted"
    decided = made.when(ObjectsSeen((REPLICAS,)))
    assert spec(made, "waits").spread_by == (APP, TIER)
    assert ids(one(decided, PodsRelabelled)) == [1, 2]
    other = msgspec.structs.replace(SERVICE, selector=(("tier", "front"),))
    decided = made.when(ObjectsSeen((other,)))
    assert spec(made, "waits").spread_by == (TIER,)
    assert ids(one(decided, PodsRelabelled)) == [2], "only who waits"
    made.when(ObjectsDeletedSeen("s\nr"))
    assert spec(made, "waits").spread_by == ()
    made.core.check(made.state)


def test_an_object_that_selects_no_pending_pod_is_recorded_alone():
    made = steps()
    made.when(nodes("n"), pods("old", labels=WEB, on="n"), pods("waits", labels=(("app", "db"),)))
    assert names(made.when(ObjectsSeen((SERVICE, REPLICAS)))) == ["ObjectsSet"]
    assert made.when(ObjectsDeletedSeen("s")) == [ObjectsGone("s")]
    assert not made.state.interest


def test_a_placed_pod_keeps_its_default_spread():
    made = steps(SERVICE)
    made.when(nodes("n"), pods("a", "b", labels=WEB))
    before = spec(made, "a")
    assert names(made.when(bound("a:n", at=5))) == ["PodsAssigned"]
    assert names(made.when(ObjectsDeletedSeen("s"))).count("PodsRelabelled") == 1
    assert (spec(made, "a"), spec(made, "b").spread_by) == (before, ())
    assert made.when(pods("a", labels=WEB, on="n", at=9)) == []
    assert spec(made, "a") == before


def test_one_event_may_show_pods_with_a_node_and_without():
    made = steps(SERVICE)
    decided = made.when(nodes("n"), pods("a", "b", "c", labels=WEB, on="- n -"))
    assert ids(one(decided, PodsPending)) == [2, 3]
    assert [spec(made, name).spread_by for name in "abc"] == [(APP,), (), (APP,)]
    decided = made.when(pods("a", "b", "c", labels=WEB, on="n n -", at=9))
    assert "PodsRelabelled" not in names(decided)
    assert [spec(made, name).spread_by for name in "abc"] == [(APP,), (), (APP,)]


def test_a_thousand_replicas_are_one_signature():
    made = steps(SERVICE, REPLICAS)
    for number in range(10):
        decided = made.when(pods(*(f"p{number}-{i}" for i in range(100)), labels=WEB, owner=OWN))
        assert ("SignatureDefined" in names(decided)) == (number == 0)
    assert len(made.state.sigs) == 1


def test_waiting_pods_follow_a_configuration_that_switches_default_spread():
    made = steps(SERVICE, default_spread=False)
    made.when(pods("a", labels=WEB))
    decided = made.when(Configured({"ingest": {"default_spread": True}}))
    assert ids(one(decided, PodsRelabelled)) == [1]
    assert spec(made, "a").spread_by == (APP,)
    made.when(Configured({"ingest": {"default_spread": True, "schedulers": ["somebody"]}}))
    assert spec(made, "a").spread_by == ()
    made.when(Configured({"ingest": {"default_spread": True}}))
    made.when(Configured({}))
    assert spec(made, "a").spread_by == ()
    assert made.when(Configured({})) == []


def test_default_spread_is_in_the_snapshot():
    made = steps(SERVICE, REPLICAS)
    made.when(nodes("n"), pods("a", "b", labels=WEB, owner=OWN))
    made.when(bound("a:n", at=5))
    made.reload()
    made.core.check(made.state)
    assert made.when(pods("a", labels=WEB, owner=OWN, on="n", at=9)) == []
    made.when(ObjectsDeletedSeen("s"))
    assert [spec(made, name).spread_by for name in "ab"] == [(APP, TIER), (TIER,)]


def test_a_snapshot_without_default_spread_can_be_read():
    made = steps(default_spread=False)
    made.when(pods("a", labels=WEB))
    body = msgspec.msgpack.decode(made.dumped())
    assert {"spread_sigs", "objects"}.isdisjoint(body)
    made.state = made.core.load(body)
    assert made.when(pods("b", labels=WEB), gone("a"))
    made.core.check(made.state)


def test_an_object_recreated_under_its_name_counts_before_the_delete():
    made = steps(REPLICAS)
    made.when(pods("a", labels=WEB, owner=OWN))
    again = msgspec.structs.replace(REPLICAS, uid="r2", selector=LabelSelector((("app", "web"),)))
    assert made.when(ObjectsSeen((again,)))[0] == ObjectsSet((again,))
    assert spec(made, "a").spread_by == (APP,)
    assert names(made.when(ObjectsDeletedSeen("r"))) == ["ObjectsGone"]
    assert spec(made, "a").spread_by == (APP,)
