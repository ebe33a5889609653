"""The brute-force check of a run's end: correct waits pass, and each kind of wrong one is found."""

from collections import Counter

import pytest

from muster.checker.brute_force import GATED, Final, Waiting, confirm
from muster.checker.filters.fits import Load
from muster.checker.filters.inter_pod_rules import named
from shared.model.groups.topology import Topology
from shared.model.objects import Gang, GpuRequest, PodSpec, PodTerm, Requirement, Taint
from shared.model.volumes import ClaimUse
from tests.support.builders import model_node

FULL = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."


def node(name, cpu=1000, gpus=0, **more):
    builder = model_node(name).capacity(cpu=cpu, memory=1 << 30, pods=10)
    return builder.fields(gpu_count=gpus, **more).obj()


def spec(cpu=600, **more):
    return PodSpec(requests=(("cpu", cpu),), **more)


def waiting(message=FULL, number=9, gang="", pod=None, gated=False):
    return Waiting(number, f"pod-{number}", pod or spec(), message, gang, gated)


def final(*waits, nodes=None, loads=None, gangs=(), running=None):
    tainted = node("b", taints=(Taint("k"),))
    return Final(
        nodes if nodes is not None else [node("a"), tainted],
        loads if loads is not None else {"a": Load({1: spec()})},
        list(waits),
        {gang.key: gang for gang in gangs},
        Counter(running or {}),
    )


def test_a_right_wait_is_confirmed_and_counted_by_reason():
    verdict = confirm(final(waiting(), waiting(number=10)))
    assert verdict.problems == []
    assert verdict.reasons == {"Insufficient cpu, node(s) had untolerated taint(s)": 2}


def test_a_reason_without_a_node_is_reported_whole():
    missing = 'persistentvolumeclaim "data" not found'
    pod = spec(volumes=(ClaimUse(name="data"),))
    verdict = confirm(final(waiting(f"0/2 nodes are available: {missing}.", pod=pod)))
    assert verdict.problems == []
    assert verdict.reasons == {missing: 1}


def test_a_wait_for_a_queue_is_no_wait_for_a_node():
    message = "queue team-a is at its max for cpu (4/4)"
    verdict = confirm(final(waiting(message), loads={}))
    assert (verdict.problems, verdict.reasons) == ([], {message: 1})


NOT_HELPFUL = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."


@pytest.mark.parametrize(
    "after",
    [
        "",
        f" {NOT_HELPFUL}",
        f" no new claims to deallocate, {NOT_HELPFUL}",
        f" {NOT_HELPFUL}, no new claims to deallocate",
        " no new claims to deallocate",
        " not found",
    ],
)
def test_what_preemption_adds_to_the_message_is_understood(after):
    assert confirm(final(waiting(FULL + after))).problems == []


@pytest.mark.parametrize(
    ("wait", "loads", "problem"),
    [
        (waiting(), {}, "but fits on node a"),
        (waiting(""), None, "waits without a message"),
        (waiting("because"), None, "gives no reasons"),
        (waiting(FULL.replace("0/2", "0/3")), None, "names another number of nodes than 2"),
        (
            waiting("0/2 nodes are available: 2 Insufficient cpu."),
            None,
            "brute force finds 1 node",
        ),
        (
            waiting("0/2 nodes are available: 1 node(s) had untolerated taint(s)."),
            None,
            "fewer than 2",
        ),
        (
            waiting("0/2 nodes are available: 2 node(s) had untolerated taint(s)."),
            None,
            "brute force finds 1 node",
        ),
        (
            waiting(FULL.replace("cpu", "memory")),
            None,
            "brute force finds 1 node with 'Insufficient cpu'",
        ),
        (
            waiting(FULL.replace("1 Insufficient cpu", "1 Insufficient cpu, 1 Too many pods")),
            None,
            "brute force finds 0 nodes with 'Too many pods'",
        ),
    ],
)
def test_a_wrong_wait_or_message_is_a_problem(wait, loads, problem):
    (found,) = confirm(final(wait, loads=loads)).problems
    assert problem in found


def test_messages_need_not_be_true_at_the_same_time_while_gangs_hold_room():
    held = "0/2 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s)."
    proven: set[int] = set()
    first = final(waiting(number=1), waiting(held, number=2))
    assert len(confirm(first, proven=proven).problems) == 1
    assert proven == {1}
    second = final(waiting(held, number=1), waiting(number=2))
    assert confirm(second, proven=proven).problems == []
    assert len(confirm(second).problems) == 1


def test_without_nodes_only_one_message_is_right():
    assert confirm(final(waiting("no nodes available to schedule pods"), nodes=[])).problems == []
    assert confirm(final(waiting(), nodes=[])).problems != []


def test_gated_pods_need_no_message():
    verdict = confirm(final(waiting("", gated=True), loads={}))
    assert verdict.problems == []
    assert verdict.reasons == {GATED: 1}


def away(**more):
    """Return a pod with anti-affinity to equal pods."""
    term = PodTerm("host", (Requirement("app", "In", ("x",)),))
    return named(spec(100, pod_anti_affinity=(term,), **more), "default", (("app", "x"),))


def test_rules_between_pods_count_in_what_fits():
    nodes = [node("a", labels={"host": "a"}), node("b", labels={"host": "b"})]
    full = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    waits = [waiting(full, pod=away())]
    both = {"a": Load({1: away()}), "b": Load({2: away()})}
    assert confirm(final(*waits, nodes=nodes, loads=both)).problems == []
    (problem,) = confirm(final(*waits, nodes=nodes, loads={"a": Load({1: away()})})).problems
    assert "fits on node b" in problem


GANG = Gang(key="g", min_count=2)


SHORT = "gang g: 1 of 2 members have a node; 1 more: 1 Insufficient cpu."


def members(message=SHORT, **more):
    return [waiting(message, number, gang="g", **more) for number in (10, 11)]


def test_a_gang_waits_rightly_when_too_few_members_fit():
    nodes = [node("a", cpu=1000)]
    assert confirm(final(*members(), nodes=nodes, loads={}, gangs=[GANG])).problems == []


def test_a_gang_is_counted_by_what_it_is_short_of():
    after = " preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    texts = (SHORT, SHORT + after, SHORT.replace(":", " timed out after 6 s:", 1))
    nodes = [node("a", cpu=1000)]
    for text in texts:
        verdict = confirm(final(*members(text), nodes=nodes, loads={}, gangs=[GANG]))
        assert (verdict.problems, verdict.reasons) == ([], {SHORT.removesuffix("."): 2})


KUBE = "0/1 nodes are available: 1 Insufficient cpu."


@pytest.mark.parametrize("text", [KUBE, f"gang g timed out after 6 s: {KUBE}"])
def test_a_gang_of_which_no_member_fits_has_the_message_of_a_pod(text):
    nodes = [node("a", cpu=500)]
    verdict = confirm(final(*members(text), nodes=nodes, loads={}, gangs=[GANG]))
    text = "gang g: 0 of 2 members have a node; 2 more: 1 Insufficient cpu"
    assert (verdict.problems, verdict.reasons) == ([], {text: 2})


DIFFER = "all pods in a single pod group should have the same priority as the pod group's priority"


@pytest.mark.parametrize(
    ("version", "priority", "message", "is_right"),
    [
        ("1.37", 5, DIFFER, True),
        ("1.36", 5, DIFFER, False),
        ("1.37", 0, DIFFER, False),
        ("1.37", 5, SHORT, False),
        ("1.37", 0, SHORT, True),
    ],
)
def test_members_that_differ_from_their_group_are_not_tried(version, priority, message, is_right):
    gang = Gang(key="default/g", min_count=2, priority=priority)
    pods = [waiting(message, number, gang="default/g") for number in (10, 11)]
    found = final(*pods, nodes=[node("a", cpu=1000)], loads={}, gangs=[gang])
    found.version = version
    assert (confirm(found).problems == []) is is_right


@pytest.mark.parametrize(
    "text",
    [
        "waiting for minCount pods from a gang to be waiting on permit",
        "gang g timed out after 6 s waiting for 2 members to have a node.",
    ],
)
def test_a_gang_without_a_finished_try_has_no_numbers(text):
    nodes = [node("a", cpu=1000)]
    assert confirm(final(*members(text), nodes=nodes, loads={}, gangs=[GANG])).problems == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (KUBE, "1 of 2 members"),
        (SHORT.replace("1 of 2", "0 of 2").replace("1 more", "2 more"), "1 of 2 members"),
        (SHORT.replace("1 of 2", "1 of 3").replace("1 more", "2 more"), "1 of 2 members"),
        (SHORT.replace("1 more", "2 more"), "1 of 2 members"),
        (SHORT.replace("cpu", "memory"), "1 node with 'Insufficient cpu'"),
        (SHORT.replace(": 1 Insuf", ": 2 Insuf"), "1 node with 'Insufficient cpu'"),
        (SHORT.removesuffix(": 1 Insufficient cpu.") + ".", "gives no reasons"),
        ("because", "1 of 2 members"),
    ],
)
def test_a_false_message_of_a_gang_is_a_problem(text, problem):
    nodes = [node("a", cpu=1000)]
    waits = final(*members(text), nodes=nodes, loads={}, gangs=[GANG])
    (found,) = confirm(waits).problems
    assert problem in found
    proven: set[int] = set()
    confirm(final(*members(), nodes=nodes, loads={}, gangs=[GANG]), proven=proven)
    assert confirm(waits, proven=proven).problems == [], "it was true at a check before"


def test_members_that_run_have_a_node():
    nodes = [node("a", cpu=1000)]
    gang = Gang(key="g", min_count=3)
    text = "gang g: 2 of 3 members have a node; 1 more: 1 Insufficient cpu."
    wait = final(*members(text), nodes=nodes, loads={}, gangs=[gang], running={"g": 1})
    assert confirm(wait).problems == []


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("gang g: 1 of 3 members have a node; 2 more: 1 Insufficient cpu.", True),
        ("gang g: 2 of 3 members have a node; 1 more: 1 Insufficient cpu.", True),
        ("gang g: 0 of 3 members have a node; 3 more: 1 Insufficient cpu.", False),
        (KUBE, False),
    ],
)
def test_of_members_that_differ_some_have_a_node_if_one_fits(text, is_true):
    nodes, gang = [node("a", cpu=1000)], Gang(key="g", min_count=3)
    pods = [waiting(text, number, "g", spec(cpu)) for number, cpu in enumerate((2000, 600, 601))]
    problems = confirm(final(*pods, nodes=nodes, loads={}, gangs=[gang])).problems
    assert bool(problems) is not is_true
    assert all("fits on node a" in problem for problem in problems)


def test_a_gang_that_would_fit_is_a_problem():
    nodes = [node("a", cpu=1200)]
    (problem,) = confirm(final(*members(), nodes=nodes, loads={}, gangs=[GANG])).problems
    assert "gang g waits" in problem


def test_a_gang_waits_rightly_for_its_group_or_its_members():
    text = "waiting for minCount pods from a gang to appear in scheduling queue"
    nodes = [node("a", cpu=9000)]
    assert confirm(final(*members(text), nodes=nodes, loads={})).problems == []
    alone = final(members(text)[0], nodes=nodes, loads={}, gangs=[GANG])
    assert confirm(alone).problems == []


def test_members_beyond_a_running_gang_are_single_pods():
    nodes = [node("a", cpu=9000)]
    wait = final(members()[0], nodes=nodes, loads={}, gangs=[GANG], running={"g": 2})
    assert "but fits on node a" in confirm(wait).problems[0]


def test_a_gang_that_only_some_packing_fits_is_counted_apart():
    # The share fits beside another on b, or on a's only empty device: then the whole one does not.
    share, whole = spec(gpu=GpuRequest(500)), spec(gpu=GpuRequest(1000))
    nodes = [node("a", gpus=1, cpu=3000), node("b", gpus=1, cpu=4000)]
    loads = {"b": Load({1: spec(cpu=700, gpu=GpuRequest(500))}, {1: 1})}
    pods = [waiting(SHORT, 10, "g", share), waiting(SHORT, 11, "g", whole)]
    verdict = confirm(final(*pods, nodes=nodes, loads=loads, gangs=[GANG]))
    assert verdict.problems == []
    assert verdict.another_packing == 1


@pytest.mark.parametrize(("cpu", "is_right"), [(600, True), (1200, False)])
def test_a_gang_with_a_topology_waits_if_no_domain_has_room(cpu, is_right):
    racks = [
        node(name, cpu, labels={"rack": rack}) for name, rack in zip("abc", "rst", strict=True)
    ]
    gang = Gang(key="default/g", min_count=2, timeout_ms=1, topology=Topology(("rack",)))
    text = "gang default/g: 1 of 2 members have a node in rack=r; 1 more: 3 Insufficient cpu."
    waits = [waiting(text, number, "default/g") for number in (9, 10)]
    verdict = confirm(final(*waits, nodes=racks, loads={}, gangs=[gang]))
    assert bool(verdict.problems) != is_right, verdict.problems


def test_a_late_member_waits_if_its_domain_is_full_although_others_have_room():
    racks = [node(name, 600, labels={"rack": name}) for name in "ab"]
    gang = Gang(key="default/g", min_count=1, timeout_ms=1, topology=Topology(("rack",)))
    late = waiting("gang default/g: 1 of 2 members have a node in rack=a; 1 more.", 9, "default/g")
    full = final(late, nodes=racks, gangs=[gang], running={"default/g": 1})
    full.homes["default/g"] = {"a"}
    assert confirm(full).problems == []
    full.homes["default/g"] = {"b"}
    assert confirm(full).problems
