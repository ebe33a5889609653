"""The checker of the live tests accepts a correct history, and finds every planted fault."""

import pytest

from tests.live.checker import fits
from tests.live.checker.audit import posts
from tests.live.checker.gangs import ON_PERMIT, TOO_FEW
from tests.unit.live.history import FULL, NO_VICTIMS, History, place, two_nodes


@pytest.fixture
def history() -> History:
    """Return a history in which four pods fill two nodes, and a fifth waits."""
    history = two_nodes()
    for number in range(4):
        place(history, f"pod-{number}", "node-a" if number % 2 else "node-b")
    history.pod("late")
    history.waits("late", NO_VICTIMS)
    return history


def one_problem(history: History) -> str:
    (problem,) = history.verdict().problems
    return problem


def test_a_true_history_has_no_problem(history: History):
    verdict = history.verdict()
    assert verdict.problems == []
    assert (verdict.bound, verdict.waiting, verdict.races) == (4, 1, [])


def test_a_pod_that_is_bound_twice_is_seen(history: History):
    history.answered("pod-1", "node-a", 201)
    assert "uid-of-pod-1 was bound 2 times" in one_problem(history)


def test_a_refused_bind_is_no_bind(history: History):
    history.answered("pod-1", "node-a", 409)
    assert history.verdict().problems == []
    assert posts(history.audit)[-1].code == 409


def test_a_pod_that_moves_is_seen():
    history = two_nodes()
    place(history, "one", "node-a")
    history.reserve(("one", "node-b"))
    history.bind("one", "node-b")
    problems = history.verdict().problems
    assert any("moved from node-a to node-b" in problem for problem in problems)
    assert any("decided again while it has a node" in problem for problem in problems)


def test_a_bind_without_a_decision_is_seen():
    history = two_nodes()
    history.pod("one")
    history.know_pods("one")
    history.reserve(("one", "node-b"))
    history.bind("one", "node-a")
    assert "without a decision" in one_problem(history)


def test_a_bind_that_etcd_does_not_have_is_seen():
    history = two_nodes()
    place(history, "one", "node-a")
    history.audit[-1]["requestObject"]["target"]["name"] = "node-b"
    problems = history.verdict().problems
    assert any("was bound to node-b and is on 'node-a'" in problem for problem in problems)


def test_a_node_that_is_over_filled_against_what_was_known_is_seen(history: History):
    place(history, "more", "node-a")
    problem, *_ = history.verdict().problems
    assert "pod uid-of-more over-fills node node-a as it was known: cpu 3 of 2" in problem


def test_two_decisions_of_one_record_count_together():
    history = two_nodes()
    for name in ("one", "two"):
        history.pod(name, "1500m")
    history.know_pods("one", "two")
    history.reserve(("one", "node-a"), ("two", "node-a"))
    for name in ("one", "two"):
        history.bind(name, "node-a", "1500m")
    assert "uid-of-two over-fills node node-a" in one_problem(history)


def test_released_room_is_free_again():
    history = two_nodes()
    for name in ("one", "two"):
        history.pod(name, "2")
        history.know_pods(name)
    history.reserve(("one", "node-a"))
    history.journals["placement/0"][-1].events.append({"type": "released", "ids": b"\1" + bytes(7)})
    history.reserve(("two", "node-a"), ("one", "node-b"))
    history.bind("two", "node-a", "2")
    history.bind("one", "node-b", "2")
    assert history.verdict().problems == []


def test_a_race_is_listed_with_its_staleness_and_is_no_fault():
    """Another scheduler takes the node; our shard learns of it only after its decision."""
    history = two_nodes()
    history.pod("theirs", "2", "default-scheduler")
    history.bind("theirs", "node-a", "2", "default-scheduler")
    history.pod("one")
    history.know_pods("theirs", "one")
    history.reserve(("one", "node-a"))
    history.know_bound("theirs", "node-a")
    history.bind("one", "node-a")
    # The shard reads it before its next record.
    history.pod("two")
    history.know_pods("two")
    history.reserve(("two", "node-b"))
    history.bind("two", "node-b")
    verdict = history.verdict()
    assert verdict.problems == []
    (race,) = verdict.races
    assert (race.pod, race.node, race.resources) == ("default/one", "node-a", ("cpu",))
    assert race.missed == ("theirs",)
    assert race.stale_s == pytest.approx(1.0)
    assert verdict.told_after_s == [pytest.approx(3.0)]


def test_a_node_that_shrinks_before_the_bind_is_a_race():
    history = two_nodes()
    history.pod("one")
    history.know_pods("one")
    history.reserve(("one", "node-a"))
    history.node("node-a", cpu=0)
    history.bind("one", "node-a")
    verdict = history.verdict()
    assert verdict.problems == []
    assert [(race.missed, race.stale_s) for race in verdict.races] == [((), 0.0)]


def test_a_node_that_was_never_recorded_is_seen():
    history = two_nodes()
    history.pod("one")
    history.know_pods("one")
    gone = {"type": "nodes_gone", "shard": 0, "ids": b"\1" + bytes(7)}
    history.publish(gone)
    history.reserve(("one", "node-a"))
    history.bind("one", "node-a")
    problems = history.verdict().problems
    assert any("that is not there" in problem for problem in problems)


def test_a_forgotten_pod_is_seen(history: History):
    history.pod("silent")
    assert one_problem(history) == "default/silent is forgotten: no node, and no word why"


def test_gated_and_terminating_pods_need_no_message(history: History):
    history.pod("gated")
    history.changes[-1].value["spec"]["schedulingGates"] = [{"name": "wait"}]
    history.pod("leaving")
    history.changes[-1].value["metadata"]["deletionTimestamp"] = "now"
    assert history.verdict().problems == []


NO_WORKLOAD = 'waiting for pods\'s workload "team" to appear in scheduling queue'


@pytest.fixture
def gang() -> History:
    """Return a history of two nodes with room for two pods each, and two members of a
    gang of five.
    """
    history = two_nodes()
    for number in range(2):
        history.member(f"member-{number}", NO_WORKLOAD)
    history.workload("team", 5)
    for number in range(2):
        history.member(f"member-{number}", TOO_FEW)
    return history


def complete(history: History, message: str) -> None:
    """Add the other three members, all with the same message."""
    for number in range(2, 5):
        history.member(f"member-{number}", TOO_FEW)
    for number in range(5):
        history.member(f"member-{number}", message)


def test_a_gang_that_waits_for_its_members_is_no_problem(gang: History):
    assert gang.verdict().problems == []


def test_a_member_without_a_message_is_seen(gang: History):
    gang.member("member-2")
    assert one_problem(gang) == "default/member-2 is forgotten: no node, and no word why"


def test_a_stale_message_of_a_member_is_seen(gang: History):
    gang.now_s += 58.5
    assert "member-0 waits with a message of 60 s ago" in one_problem(gang)


def test_a_member_that_waits_for_a_group_that_is_there_is_seen(gang: History):
    gang.now_s += 10
    gang.member("member-0", NO_WORKLOAD)
    problem = one_problem(gang)
    assert f"default/member-0 says {NO_WORKLOAD!r}" in problem
    assert TOO_FEW in problem


SHORT = "gang default/team/all: 4 of 5 members have a node; 1 more: 2 Insufficient cpu."


@pytest.mark.parametrize("text", [SHORT, SHORT.replace(":", " timed out after 3 s:", 1)])
def test_a_gang_that_does_not_fit_as_a_whole_is_no_problem(gang: History, text: str):
    complete(gang, text)
    assert gang.verdict().problems == []


@pytest.mark.parametrize("text", [FULL, f"gang default/team/all timed out after 3 s: {FULL}"])
def test_a_gang_of_which_no_member_fits_has_the_message_of_a_pod(text: str):
    history = two_nodes()
    history.workload("team", 2)
    for number in range(2):
        history.member(f"member-{number}", text, cpu="9")
    assert history.verdict().problems == []


def test_a_gang_that_fits_and_waits_is_seen(gang: History):
    gang.node("node-c")
    complete(gang, TOO_FEW)
    problems = gang.verdict().problems
    assert len([one for one in problems if "a node would take it" in one]) == 5


def test_a_gang_with_a_wrong_reason_is_seen(gang: History):
    complete(gang, FULL)
    problems = gang.verdict().problems
    assert len(problems) == 5
    assert all(SHORT in one or ON_PERMIT in one for one in problems)


def joined(history: History, number: int, min_count: int = 3) -> None:
    """Add so many members of a gang with nodes."""
    history.workload("team", min_count)
    for name in [f"member-{one}" for one in range(number)]:
        place(history, name, "node-a" if name == "member-0" else "node-b", cpu="500m")
        for change in history.changes:
            if change.key.endswith(f"/{name}"):
                change.value["spec"]["workloadRef"] = {"name": "team", "podGroup": "all"}


def test_a_gang_of_which_too_few_are_bound_is_seen():
    history = two_nodes()
    joined(history, 2)
    assert one_problem(history) == "gang default/team/all: 2 bound, of at least 3"


def test_a_gang_that_was_bound_whole_is_no_problem_after_a_member_leaves():
    history = two_nodes()
    joined(history, 3)
    assert history.verdict().problems == []
    history.store("pods/default/member-1", None)
    assert history.verdict().problems == []


def test_a_group_that_is_no_gang_may_be_bound_in_part():
    history = two_nodes()
    joined(history, 1)
    history.changes[2].value["spec"]["podGroups"][0]["policy"] = {"basic": {}}
    assert history.verdict().problems == []


CLAIMS = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def test_a_refused_pod_names_its_bad_field(history: History):
    history.waits("alone", "spec.volumes[data]: is not supported")
    history.changes[-1].value["spec"]["volumes"] = CLAIMS
    assert history.verdict().problems == []
    history.waits("alone", "spec.affinity: is not supported")
    history.changes[-1].value["spec"]["volumes"] = CLAIMS
    assert "it cannot be judged whether it must" in one_problem(history)


def test_a_stale_message_is_seen(history: History):
    history.waits("old", FULL, at_s=history.now_s - 61)
    assert "old waits with a message of 62 s ago" in one_problem(history)


def test_a_wrong_message_is_seen(history: History):
    history.waits("wrong", "0/2 nodes are available: 2 Insufficient memory.")
    assert "'0/2 nodes are available: 2 Insufficient cpu.'" in one_problem(history)


def test_a_message_may_be_of_the_moment_before(history: History):
    """It was true a second before it was written; since then only the number of nodes changed."""
    history.node("node-c", cpu=0)
    history.waits("late", FULL)
    assert history.verdict().problems == []


def test_a_message_of_long_ago_is_not_confirmed(history: History):
    history.node("node-c", cpu=0)
    history.now_s += 10
    history.waits("late", FULL)
    assert "true is '0/3 nodes" in one_problem(history)


def test_a_pod_that_waits_although_a_node_would_take_it_is_seen(history: History):
    history.store("pods/default/pod-0", None)
    assert "late waits, and a node would take it" in one_problem(history)


def test_a_delete_that_never_happened_is_seen(history: History):
    gone = {"type": "pods_gone", "ids": b"\1" + bytes(7)}
    history.publish(gone)
    assert "pod uid-of-pod-0 is called gone and is there" in one_problem(history)


def test_a_delete_that_happened_is_no_problem():
    history = two_nodes()
    place(history, "one", "node-a")
    history.store("pods/default/one", None)
    history.publish({"type": "pods_gone", "ids": b"\1" + bytes(7)})
    place(history, "two", "node-a", cpu="2")
    assert history.verdict().problems == []


def test_a_delete_recorded_before_it_happened_is_seen():
    history = two_nodes()
    place(history, "one", "node-a")
    history.publish({"type": "pods_gone", "ids": b"\1" + bytes(7)})
    history.now_s += 20
    history.store("pods/default/one", None)
    assert "is called gone and is there" in one_problem(history)


@pytest.mark.parametrize(
    ("quantity", "amount"),
    [("1", 1000), ("100m", 100), ("1Ki", 1024_000), ("1.5", 1500), ("2k", 2_000_000), ("1u", 1)],
)
def test_quantities(quantity: str, amount: int):
    assert fits.thousandths(quantity) == amount


def test_requests_are_those_of_the_hungriest_moment():
    def container(cpu: str, **more: str):
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "initContainers": [container("1", restartPolicy="Always"), container("5")],
        "containers": [container("2"), container("2")],
        "overhead": {"cpu": "500m"},
    }
    assert fits.requests({"spec": spec}) == {"cpu": 6500, "pods": 1000}


NODE = {
    "metadata": {"name": "node-a", "labels": {"zone": "west", "size": "3"}},
    "spec": {"taints": [{"key": "only", "value": "x", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "1", "pods": "1"}},
}
TOLERATED = {"tolerations": [{"key": "only", "value": "x"}]}


def required(*rules: dict) -> dict:
    terms = [{"matchExpressions": list(rules)}]
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {**TOLERATED, "affinity": {"nodeAffinity": wanted}}


@pytest.mark.parametrize(
    ("spec", "reasons"),
    [
        ({}, ["node(s) had untolerated taint(s)"]),
        (TOLERATED, []),
        ({"tolerations": [{"operator": "Exists"}]}, []),
        ({"tolerations": [{"key": "only", "value": "y"}]}, ["node(s) had untolerated taint(s)"]),
        (
            {**TOLERATED, "nodeSelector": {"zone": "east"}},
            ["node(s) didn't match Pod's node affinity/selector"],
        ),
        (required({"key": "zone", "operator": "In", "values": ["west"]}), []),
        (required({"key": "size", "operator": "Gt", "values": ["2"]}), []),
        (
            required({"key": "zone", "operator": "DoesNotExist"}),
            ["node(s) didn't match Pod's node affinity/selector"],
        ),
    ],
)
def test_rules_of_one_node(spec: dict, reasons: list[str]):
    pod = {"metadata": {"name": "one"}, "spec": {"containers": [], **spec}}
    assert fits.why_not(pod, NODE, {}, ()) == reasons


def test_a_cordoned_node_a_taken_port_and_no_room():
    port = {"ports": [{"hostPort": 80}]}
    pod = {"metadata": {"name": "one"}, "spec": {"containers": [port], **TOLERATED}}
    cordoned = {**NODE, "spec": {"unschedulable": True}}
    assert fits.why_not(pod, cordoned, {}, ()) == ["node(s) were unschedulable"]
    (ports,) = fits.why_not(pod, NODE, {}, [pod])
    assert "free ports" in ports
    assert fits.why_not(pod, NODE, {"pods": 1000}, ()) == ["Too many pods"]


def test_unknown_fields_are_not_checked(history: History):
    history.waits("claiming", FULL)
    history.changes[-1].value["spec"]["volumes"] = CLAIMS
    assert "it cannot be judged whether it must" in one_problem(history)
