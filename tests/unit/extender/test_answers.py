"""What the extender answers, from a table: given a cluster, when kube-scheduler asks, then."""

import pytest

from muster.extender import view as view_module
from muster.extender.answers import UNKNOWN_NODE, filter_nodes, preempt, prioritize, why_not
from muster.extender.wire import SCORE_MAX, UnreadablePod
from shared.model.profile import DEFAULT_FILTERS, Profile
from tests.support.custom_plugins import ByZone, Tainted, known
from tests.unit.extender.world import World, args, node, pod, preemption, reasons

PACK = Profile(name="default-scheduler", scores=(("NodeResourcesFit", 1),))


def test_a_share_of_a_gpu_goes_only_where_one_device_has_room():
    world = World(
        node("full", gpus=1),
        node("free", gpus=1),
        node("none"),
        pod("a", milli=600, nodeName="full"),
    )
    result = filter_nodes(world.view, args(pod("b", milli=600), "full", "free", "none"))
    assert result.NodeNames == ["free"]
    assert result.Nodes is None
    assert list(result.FailedNodes) == ["full"]
    assert list(result.FailedAndUnresolvableNodes) == ["none"]
    assert "gpu" in reasons(result)["full"]
    assert result.Error == ""


def test_nodes_that_removing_pods_cannot_help_are_unresolvable():
    taint = {"key": "gone", "effect": "NoSchedule"}
    tainted = node("tainted")
    tainted["spec"] = {"taints": [taint]}
    world = World(tainted, node("small", cpu="1"), node("busy"), pod("a", "8", nodeName="busy"))
    result = filter_nodes(world.view, args(pod("b", "4"), "tainted", "small", "busy"))
    assert result.NodeNames == []
    assert result.FailedNodes == {"busy": "Insufficient cpu"}
    assert result.FailedAndUnresolvableNodes == {
        "tainted": "node(s) had untolerated taint(s)",
        "small": "Insufficient cpu",
    }


def test_several_reasons_of_a_node_are_told_together():
    world = World(node("a", cpu="1"))
    asked = pod("b", "4")
    asked["spec"]["containers"][0]["resources"]["requests"]["memory"] = "100Gi"
    result = filter_nodes(world.view, args(asked, "a"))
    assert reasons(result) == {"a": "Insufficient cpu, Insufficient memory"}


def test_a_node_that_the_watch_does_not_show_is_named():
    world = World(node("a"))
    result = filter_nodes(world.view, args(pod("b"), "a", "new"))
    assert result.NodeNames == ["a"]
    assert result.FailedAndUnresolvableNodes == {"new": UNKNOWN_NODE}
    assert [one.Score for one in prioritize(world.view, args(pod("b"), "new", "a"))] == [0, 10]


def test_a_pod_that_cannot_be_judged_is_an_error():
    world = World(node("a"))
    asked = pod("b", resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}])
    result = filter_nodes(world.view, args(asked, "a"))
    assert result.NodeNames is None
    assert result.Error == (
        "muster cannot judge the pod: spec.resourceClaims: resource claims are not supported"
    )
    for ask in (prioritize, preempt):
        wanted = args(asked, "a") if ask is prioritize else preemption(asked, a=["x"])
        with pytest.raises(UnreadablePod, match="resource claims are not supported"):
            ask(world.view, wanted)


def test_a_pod_without_a_profile_is_an_error_that_names_the_profiles():
    world = World(node("a"), profiles=(PACK,))
    result = filter_nodes(world.view, args(pod("b", schedulerName="other"), "a"))
    assert result.Error == "muster has no profile 'other': it has default-scheduler"


def test_plugins_of_users_filter_and_score():
    with known(ByZone) as custom:
        mine = Profile(
            name="default-scheduler",
            filters=(*DEFAULT_FILTERS, "ByZone"),
            scores=(("ByZone", 1),),
            custom=custom,
        )
        nodes = node("a", zone="x"), node("b", size="1"), node("c", size="9")
        world = World(*nodes, profiles=(mine,))
        asked = args(pod("p", "1m"), "a", "b", "c")
        result = filter_nodes(world.view, asked)
        found = prioritize(world.view, asked)
    assert result.NodeNames == ["b", "c"]
    assert reasons(result) == {"a": "node(s) were in zone x"}
    assert [one.Score for one in found] == [0, 0, SCORE_MAX]


def test_rules_between_pods_count_pods_that_were_there_before_the_rule():
    keep_off = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "test"}},
                }
            ]
        }
    }
    world = World(node("a"), node("b"), pod("there", nodeName="a"))
    result = filter_nodes(world.view, args(pod("new", affinity=keep_off), "a", "b"))
    assert result.NodeNames == ["b"]
    assert reasons(result) == {"a": "node(s) didn't match pod anti-affinity rules"}


def test_questions_leave_nothing_behind(monkeypatch):
    monkeypatch.setattr(view_module, "ASKED_MAX", 3)
    world = World(node("a"), node("b"))
    for number in range(1, 9):
        assert filter_nodes(world.view, args(pod("p", f"{number}"), "a")).NodeNames == ["a"]
    ingest, placement = world.view.ingest, world.view.placement
    assert len(ingest.sigs) == len(placement.specs) == 3
    assert not len(ingest.pods)
    assert ingest.next_pod == 1
    assert filter_nodes(world.view, args(pod("p", "9"), "a")).NodeNames == []


def test_scores_are_stretched_from_the_worst_to_the_best():
    world = World(
        node("busy"),
        node("half"),
        node("free"),
        pod("x", "6", nodeName="busy"),
        pod("y", "3", nodeName="half"),
        profiles=(PACK,),
    )
    found = prioritize(world.view, args(pod("b"), "half", "busy", "free"))
    assert [one.Host for one in found] == ["half", "busy", "free"]
    half, busy, free = (one.Score for one in found)
    assert (busy, free) == (0, SCORE_MAX)
    assert 0 < half < SCORE_MAX


def test_nodes_that_are_equally_good_get_the_highest_score_and_those_that_do_not_fit_none():
    world = World(node("a"), node("b"), node("full", cpu="1"))
    found = prioritize(world.view, args(pod("p", "2"), "a", "full", "b"))
    assert [one.Score for one in found] == [SCORE_MAX, 0, SCORE_MAX]
    assert prioritize(world.view, args(pod("p"))) == []


def test_preemption_is_left_where_the_pod_fits_once_the_victims_are_gone():
    """On `other` the share of a GPU stays taken by a pod that is no victim."""
    world = World(
        node("good", cpu="2", gpus=1),
        node("other", cpu="2", gpus=1),
        pod("v1", "2", milli=800, nodeName="good"),
        pod("v2", "1", nodeName="other"),
        pod("stays", "1", milli=800, nodeName="other"),
    )
    asked = preemption(pod("p", "1", milli=500), good=["v1"], other=["v2"], unknown=["v3"])
    left = preempt(world.view, asked).NodeNameToMetaVictims
    assert list(left) == ["good"]
    assert [one.UID for one in left["good"].Pods or ()] == ["uid-v1"]


def test_victims_that_do_not_make_enough_room_are_not_accepted():
    world = World(node("a", cpu="3"), *(pod(f"v{n}", "1", nodeName="a") for n in range(3)))
    wanted = pod("p", "2")
    assert not preempt(world.view, preemption(wanted, a=["v0"])).NodeNameToMetaVictims
    assert not preempt(world.view, preemption(wanted, a=["v0", "v0"])).NodeNameToMetaVictims
    assert preempt(world.view, preemption(wanted, a=["v0", "v2"])).NodeNameToMetaVictims


def test_preemption_cannot_help_where_the_node_itself_is_wrong():
    world = World(node("a", cpu="1"), pod("v", "1", nodeName="a"))
    asked = preemption(pod("p", "1", nodeSelector={"disk": "fast"}), a=["v"])
    assert not preempt(world.view, asked).NodeNameToMetaVictims


def test_preemption_cannot_help_a_pod_that_pre_filter_rejects():
    with known(Tainted) as custom:
        mine = Profile(name="default-scheduler", scores=(("Tainted", 1),), custom=custom)
        world = World(node("a", cpu="1"), pod("v", "1", nodeName="a"), profiles=(mine,))
        assert preempt(world.view, preemption(pod("p"), a=["v"])).NodeNameToMetaVictims
        rejected = pod("p", priority=13)
        assert not preempt(world.view, preemption(rejected, a=["v"])).NodeNameToMetaVictims


def test_a_victim_that_the_watch_does_not_show_there_makes_no_room():
    world = World(node("a", cpu="1"), pod("v", "1", nodeName="a"), node("b"))
    world.shows(pod("w", "1", nodeName="b"))
    assert not preempt(world.view, preemption(pod("p"), a=["w"])).NodeNameToMetaVictims
    assert not preempt(world.view, preemption(pod("p"), a=["unseen"])).NodeNameToMetaVictims
    world.deletes("v")
    assert preempt(world.view, preemption(pod("p"), a=["v"])).NodeNameToMetaVictims


# ------------------------------------------------------------------------------- pods being bound


def test_an_assumed_pod_takes_its_room_at_once_and_the_watch_confirms_it():
    world = World(node("a", gpus=1), node("b", gpus=1))
    bound, second = pod("p", milli=600, revision=5), world.raw(pod("q", milli=600))
    world.view.assume(world.raw(bound), "a")
    assert "gpu" in why_not(world.view, second, "a")
    assert why_not(world.view, second, "b") == ""
    world.shows({**bound, "spec": {**bound["spec"], "nodeName": "a"}})
    assert not world.view.assumed
    assert len(world.view.ingest.pods) == 1
    assert "gpu" in why_not(world.view, second, "a")
    world.deletes("p")
    assert why_not(world.view, second, "a") == ""


def test_a_pod_that_is_not_bound_gives_its_room_back():
    world = World(node("a", gpus=1))
    world.view.assume(world.raw(pod("p", milli=600, revision=5)), "a")
    world.view.forget("uid-p")
    world.view.forget("uid-p")
    assert why_not(world.view, world.raw(pod("q", milli=600)), "a") == ""
    assert not len(world.view.ingest.pods)


def test_what_the_watch_has_shown_is_not_taken_back():
    """Another scheduler bound the pod elsewhere meanwhile."""
    world = World(node("a", gpus=1), node("b", gpus=1))
    bound, second = pod("p", milli=600, revision=5), world.raw(pod("q", milli=600))
    world.view.assume(world.raw(bound), "a")
    world.shows({**bound, "spec": {**bound["spec"], "nodeName": "b"}})
    world.view.forget("uid-p")
    assert why_not(world.view, second, "a") == ""
    assert "gpu" in why_not(world.view, second, "b")


def test_a_pod_that_is_deleted_meanwhile_is_not_charged_again():
    world = World(node("a", gpus=1))
    world.view.assume(world.raw(pod("p", milli=600, revision=5)), "a")
    world.deletes("p")
    assert not world.view.assumed
    world.lists_pods()
    assert why_not(world.view, world.raw(pod("q", milli=600)), "a") == ""


def test_a_list_that_is_older_than_the_bind_does_not_give_its_room_away():
    world = World(node("a", gpus=1))
    world.view.assume(world.raw(pod("p", milli=600, revision=5)), "a")
    world.lists_pods()
    world.lists_pods()  # the first of all pods is doubted
    assert list(world.view.assumed) == ["uid-p"]
    second = world.raw(pod("q", milli=600))
    assert "gpu" in why_not(world.view, second, "a")
    world.view.forget("uid-p")
    assert why_not(world.view, second, "a") == ""


def test_the_answer_about_an_unknown_node_says_so():
    world = World(node("a"))
    assert why_not(world.view, world.raw(pod("p")), "new") == UNKNOWN_NODE
