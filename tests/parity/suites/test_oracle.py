"""The oracle answers correctly: values of kube-scheduler that are known by other means."""

import pytest

from shared.model.release import V1_35, V1_36, V1_37
from tests.parity.oracle.client import Oracle, OracleError, require_oracle
from tests.parity.suites.builders import UNRESOLVABLE, case, named, node, only, pod, refused, taken

LEFT_OUT = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


def test_the_golden_pod_scores_487(oracle):
    answer = only(oracle, node(), asked=pod(requests={"cpu": "500m", "memory": "1Gi"}))
    assert answer == {
        "namespace": "default",
        "name": "p",
        "preFilterStatus": {"code": "Success", "plugin": "", "reasons": []},
        "nodes": {"a": taken(NodeResourcesFit=87, NodeResourcesBalancedAllocation=100)},
        "fitError": "",
        "best": ["a"],
    }
    assert answer["nodes"]["a"]["total"] == 487


@pytest.mark.parametrize(
    ("requests", "fit"), [({}, 97), ({"cpu": "0", "memory": "0"}, 100)], ids=["absent", "zero"]
)
def test_an_absent_request_counts_a_little_and_a_zero_nothing(oracle, requests, fit):
    answer = only(oracle, node(), asked=pod(requests=requests))
    assert answer["nodes"] == {"a": taken(NodeResourcesFit=fit)}


@pytest.mark.parametrize(
    ("held", "asked", "balanced"),
    [
        (None, {"cpu": "2", "memory": "1Gi"}, 81),
        ({"cpu": "2", "memory": "1Gi"}, {"cpu": "100m", "memory": "3Gi"}, 98),
    ],
    ids=["empty", "held"],
)
def test_balance_of_1_35_looks_at_the_node_with_the_pod_alone(oracle, held, asked, balanced):
    placed = [] if held is None else [pod("held", held, nodeName="a", status={"phase": "Running"})]
    answer = only(oracle, node(), *placed, asked=pod(requests=asked))
    assert answer["nodes"]["a"]["scores"]["NodeResourcesBalancedAllocation"] == balanced


@pytest.mark.parametrize(("holders", "score"), [(1, 2), (10, 48)])
def test_an_image_counts_for_the_share_of_nodes_that_have_it(oracle, holders, score):
    image = {"names": ["app:latest"], "sizeBytes": 500 * 1024 * 1024}
    nodes = [node(f"n{i}", images=[image] if i < holders else []) for i in range(10)]
    answer = only(oracle, *nodes, asked=pod())
    assert answer["nodes"]["n0"]["scores"]["ImageLocality"] == score


@pytest.mark.parametrize(
    ("version", "balance", "images"), [(V1_35, 98, 48), (V1_36, 83, 100), (V1_37, 83, 49)]
)
def test_each_release_has_an_oracle_that_scores_by_its_formulas(version, balance, images):
    """Balance counts from 1.36 on what the pod changes, images of volumes from then on, and in the
    limit from 1.37 on.
    """
    require_oracle(version)
    held = pod("held", {"cpu": "2", "memory": "1Gi"}, nodeName="a", status={"phase": "Running"})
    kept = [{"names": [f"{name}:latest"], "sizeBytes": 500 << 20} for name in ("app", "data")]
    volumes = [{"name": "v", "image": {"reference": "data"}}]
    asked = pod(requests={"cpu": "100m", "memory": "3Gi"}, volumes=volumes)
    with Oracle(version) as oracle:
        scores = only(oracle, node(images=kept), held, asked=asked)["nodes"]["a"]["scores"]
    found = scores["NodeResourcesBalancedAllocation"], scores["ImageLocality"]
    assert found == (balance, images)


def test_a_request_beyond_every_node_is_unresolvable(oracle):
    full = pod("full", {"cpu": "3"}, nodeName="b", status={"phase": "Running"})
    answer = only(oracle, node("a", cpu="1"), node("b"), full, asked=pod(requests={"cpu": "2"}))
    assert answer["nodes"] == {
        "a": refused(UNRESOLVABLE, "NodeResourcesFit", "Insufficient cpu"),
        "b": refused("Unschedulable", "NodeResourcesFit", "Insufficient cpu"),
    }
    assert answer["fitError"] == "0/2 nodes are available: 2 Insufficient cpu."
    assert answer["best"] == []


def test_a_finished_pod_holds_nothing_and_an_extra_one_is_too_many(oracle):
    done = pod("done", {"cpu": "4"}, nodeName="a", status={"phase": "Succeeded"})
    running = pod("running", nodeName="b", status={"phase": "Running"})
    answer = only(oracle, node("a"), node("b", pods="1"), done, running, asked=pod())
    assert answer["nodes"] == {
        "a": taken(NodeResourcesFit=97),
        "b": refused("Unschedulable", "NodeResourcesFit", "Too many pods"),
    }


def test_taints_and_unschedulable_nodes(oracle):
    taints = [{"key": "k", "effect": "NoSchedule"}]
    answer = only(oracle, node("a", taints=taints), node("b", unschedulable=True), asked=pod())
    assert answer["nodes"] == {
        "a": refused(UNRESOLVABLE, "TaintToleration", "node(s) had untolerated taint(s)"),
        "b": refused(UNRESOLVABLE, "NodeUnschedulable", "node(s) were unschedulable"),
    }
    assert answer["fitError"] == (
        "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
    )


def test_a_taint_that_only_prefers_costs_the_node_its_score(oracle):
    taints = [{"key": "k", "effect": "PreferNoSchedule"}]
    nodes = [node("a"), node("b", taints=taints), node("c"), node("d", taints=taints)]
    answer = only(oracle, *nodes, asked=pod())
    scores = {name: answer["nodes"][name]["scores"]["TaintToleration"] for name in "abcd"}
    assert scores == {"a": 300, "b": 0, "c": 300, "d": 0}
    assert answer["best"] == ["a", "c"]


def test_a_host_port_is_the_container_s_port_under_host_network(oracle):
    """Told nowhere in the pod: the API server's defaults make it so."""
    ports = [{"containerPort": 80}]
    held = pod("held", ports=ports, hostNetwork=True, nodeName="a", status={"phase": "Running"})
    answer = only(oracle, node(), held, asked=pod(ports=ports, hostNetwork=True))
    reason = "node(s) didn't have free ports for the requested pod ports"
    assert answer["nodes"] == {"a": refused("Unschedulable", "NodePorts", reason)}


def test_nodes_that_match_fields_leave_out_name_no_plugin(oracle):
    answer = only(oracle, node("a"), node("b", unschedulable=True), asked=pod(**named("b", "gone")))
    assert answer["preFilterStatus"]["code"] == "Success"
    assert answer["nodes"] == {
        "a": refused(UNRESOLVABLE, "", LEFT_OUT),
        "b": refused(UNRESOLVABLE, "NodeUnschedulable", "node(s) were unschedulable"),
    }
    assert answer["fitError"] == (
        f"0/2 nodes are available: 1 {LEFT_OUT}, 1 node(s) were unschedulable."
    )


def test_a_rejection_by_prefilter_is_every_node_s_and_printed_without_a_count(oracle):
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "x"}}
    answer = only(oracle, node("a"), node("b"), asked=pod(volumes=[claim]))
    reason = 'persistentvolumeclaim "x" not found'
    assert answer["preFilterStatus"] == {
        "code": UNRESOLVABLE,
        "plugin": "VolumeRestrictions",
        "reasons": [reason],
    }
    rejected = refused(UNRESOLVABLE, "VolumeRestrictions", reason)
    assert answer["nodes"] == {"a": rejected, "b": rejected}
    assert answer["fitError"] == f"0/2 nodes are available: {reason}."


def test_a_pod_that_waits_for_its_nominated_node_is_counted_by_its_priority(oracle):
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5}
    high["metadata"] = {"name": "high"}
    waiting = pod(
        "waiting", {"cpu": "3"}, priorityClassName="high", status={"nominatedNodeName": "a"}
    )
    requests = {"cpu": "2"}
    answer = only(oracle, node(), high, waiting, asked=pod(requests=requests))
    assert answer["nodes"] == {
        "a": refused("Unschedulable", "NodeResourcesFit", "Insufficient cpu")
    }
    urgent = pod(requests=requests, priorityClassName="system-node-critical")
    assert only(oracle, node(), high, waiting, asked=urgent)["best"] == ["a"]


def test_spreading_by_a_service_is_found_in_the_case(oracle):
    """Built-in constraints: the node that has none of the service's pods is the better one."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": "x"}},
    }
    held = pod("held", nodeName="a", status={"phase": "Running"})
    asked = pod()
    for one in (held, asked):
        one["metadata"]["labels"] = {"app": "x"}
    nodes = [node(name, labels={"kubernetes.io/hostname": name}) for name in "ab"]
    answer = only(oracle, *nodes, service, held, asked=asked)
    scores = [answer["nodes"][name]["scores"]["PodTopologySpread"] for name in "ab"]
    assert scores[0] < scores[1] == 200
    answer = only(oracle, *nodes, held, asked=asked)
    assert "PodTopologySpread" not in answer["nodes"]["a"]["scores"]


def test_a_configuration_is_read_with_its_defaults(oracle):
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    args = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    config = {**CONFIG, "profiles": [{"pluginConfig": [args]}]}
    asked = pod(requests={"cpu": "1", "memory": "2Gi"})
    answer = only(oracle, node(), asked=asked, config=config)
    assert answer["nodes"] == {"a": taken(NodeResourcesFit=25, NodeResourcesBalancedAllocation=100)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (case({"kind": "Nothing"}, asked=pod()), "objects[0]: Object 'apiVersion' is missing"),
        (case(node(), node(), asked=pod()), "objects[1]: *v1.Node /a is there twice"),
        (case(node(), asked=pod(priorityClassName="none")), "no PriorityClass with name none"),
        (case(asked=pod(), config={**CONFIG, "profils": []}), 'unknown field "profils"'),
        (
            case(node(), asked=pod(schedulerName="other")),
            'profile not found for scheduler name "other"',
        ),
        (case(node(), asked=pod(requests={"cpu": "much"})), "quantities must match"),
    ],
)
def test_a_case_that_kube_scheduler_refuses_fails_alone(oracle, wrong, message):
    right = case(node(), asked=pod())
    answers = list(oracle.ask_all([right, wrong, right]))
    assert message in answers[1]["error"]
    assert answers[0] == answers[2]
    assert answers[0]["pods"][0]["best"] == ["a"]


def test_answers_come_in_order_and_an_unread_one_is_never_taken_for_a_later_one(oracle):
    def answer(number):
        return case(node(), asked=pod(f"p{number}"))

    names = [one["pods"][0]["name"] for one in oracle.ask_all(answer(i) for i in range(200))]
    assert names == [f"p{number}" for number in range(200)]
    unread = oracle.ask_all(answer(i) for i in range(100))
    assert next(unread)["pods"][0]["name"] == "p0"
    assert only(oracle, node(), asked=pod("meanwhile"))["name"] == "meanwhile"
    assert next(unread)["pods"][0]["name"] == "p1"
    unread.close()
    assert only(oracle, node(), asked=pod("next"))["name"] == "next"


def test_it_ends_while_answers_are_due():
    require_oracle()
    nodes = [node(f"n{number}") for number in range(200)]
    with Oracle() as oracle:
        # More than the pipes hold, both ways.
        unread = oracle.ask_all(case(*nodes, asked=pod()) for _ in range(100))
        next(unread)
    with pytest.raises(OracleError, match="ended"):
        list(unread)


def test_no_answer_depends_on_the_cases_before(oracle):
    objects = [node(), pod("held", {"cpu": "3"}, nodeName="a", status={"phase": "Running"})]
    empty, held = case(node(), asked=pod()), case(*objects, asked=pod())
    answers = list(oracle.ask_all([empty, held, empty, held]))
    assert answers[:2] == answers[2:]
    assert answers[0] != answers[1]


def test_an_error_in_the_cases_reaches_the_reader(oracle):
    def broken():
        yield case(node(), asked=pod())
        raise KeyError("seed")

    with pytest.raises(KeyError, match="seed"):
        list(oracle.ask_all(broken()))
    assert only(oracle, node(), asked=pod())["best"] == ["a"]


def test_an_ended_program_is_reported_with_its_last_output(tmp_path):
    program = tmp_path / "oracle"
    program.write_text("#!/bin/sh\nread -r line\necho out of luck >&2\nexit 3\n")
    program.chmod(0o755)
    with (
        Oracle(path=program) as dying,
        pytest.raises(OracleError, match=r"(?s)with 3.*out of luck"),
    ):
        dying.ask({})


def test_a_missing_program_names_the_command_that_builds_it(tmp_path):
    with pytest.raises(OracleError, match="make servers"), Oracle(path=tmp_path / "none"):
        pass
