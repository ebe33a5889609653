"""Unusable manifests: one line that names file, object, field and rule."""

import itertools
from typing import Any

import pytest
import yaml

from shared.kubernetes.objects.errors import WorldError
from shared.worlds.manifests import manifests_world
from tests.unit.worlds.manifests import NODE, container, controller, pod, priority_class


def refused(path):
    with pytest.raises(WorldError) as raised:
        manifests_world([path])
    text = str(raised.value)
    assert "\n" not in text
    return text


def toleration(**fields: Any) -> dict[str, Any]:
    return pod(tolerations=[fields])


def term(**fields: Any) -> dict[str, Any]:
    hard = {"nodeSelectorTerms": [{"matchExpressions": [fields]}]}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": hard}})


def node(**allocatable: Any) -> dict[str, Any]:
    return NODE | {"status": {"allocatable": allocatable}}


def workload(**group: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {"podGroups": [{"name": "g", **group}]},
    }


def budget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {}, **spec},
    }


def annotated(**annotations: Any) -> dict[str, Any]:
    made = pod()
    made["metadata"]["annotations"] = {f"muster.io/{k}": v for k, v in annotations.items()}
    return made


def not_given(field: str, what: str, given: object, computed: object) -> str:
    """The words of the admission plugin Priority."""
    return (
        f"spec.{field}: the {what} ({given}) must not be provided in pod spec; priority admission "
        f"controller computed {computed} from the given PriorityClass name"
    )


# Nine levels of nine aliases: 600 bytes that stand for 400 million values.
MANY_ALIASES = "a: &a [x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in itertools.pairwise("abcdefghi")
)
REQUESTS = "Pod default/p: spec.containers[0].resources.requests"


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (pod(containers=[container(cpu="-1")]), f"{REQUESTS}.cpu: '-1' is negative"),
        (pod(containers=[container(cpu="1e400")]), f"{REQUESTS}.cpu: '1e400' is out of range"),
        (
            pod(containers=[container(memory="1GiB")]),
            f"{REQUESTS}.memory: '1GiB' is not a quantity",
        ),
        (pod(containers=[container(memory=True)]), f"{REQUESTS}.memory: True is not a quantity"),
        (pod(containers=[{"name": "c", "resorces": {}}]), "containers[0].resorces: is an unknown"),
        (pod(containers=[]), "spec.containers: must not be empty"),
        (pod(containers="c"), "spec.containers: must be a list, is 'c'"),
        (pod(containers=[{"name": 5}]), "spec.containers[0].name: must be text, is 5"),
        (pod(nodeSelecter={}), "spec.nodeSelecter: is an unknown field"),
        (pod(nodeSelector={"a": 1}), "spec.nodeSelector.a: must be text, is 1"),
        (pod(priorityClassName="no"), "spec.priorityClassName: no PriorityClass 'no'"),
        (pod(priority="9"), "spec.priority: must be a whole number, is '9'"),
        (pod(priority=5), not_given("priority", "integer value of priority", 5, 0)),
        (
            pod(priorityClassName="system-node-critical", priority=5),
            not_given("priority", "integer value of priority", 5, 2_000_001_000),
        ),
        (
            pod(preemptionPolicy="Never"),
            not_given(
                "preemptionPolicy",
                "string value of PreemptionPolicy",
                "Never",
                "PreemptLowerPriority",
            ),
        ),
        (pod(preemptionPolicy="Maybe"), "spec.preemptionPolicy: 'Maybe' is not one of"),
        (pod(nodeName="n7"), "spec.nodeName: no Node 'n7' in this world"),
        (pod(schedulingGates=[{}]), "spec.schedulingGates[0].name: is required"),
        (pod(workloadRef={"name": "w"}), "spec.workloadRef.podGroup: is required"),
        (pod(schedulingGroup={}), "spec.schedulingGroup.podGroupName: is required"),
        (
            pod(workloadRef={"name": "w", "podGroup": "g"}, schedulingGroup={"podGroupName": "g"}),
            "spec.schedulingGroup: must not be given beside workloadRef",
        ),
        (
            pod(affinity={"podAntiAffinity": {"x": 1}}),
            "podAntiAffinity.x: is an unknown field",
        ),
        (pod(topologySpreadConstraints=[{}]), "Constraints[0].whenUnsatisfiable: is required"),
        (
            pod(volumes=[{"name": "v", "persistentVolumeClaim": {}}]),
            "spec.volumes[0].persistentVolumeClaim.claimName: is required",
        ),
        (
            pod(containers=[container(**{"nvidia.com/gpu": 1, "muster.io/gpu-milli": 5})]),
            "spec.containers: nvidia.com/gpu and muster.io/gpu-milli exclude each other",
        ),
        (
            pod(containers=[container(**{"muster.io/gpu-milli": 1500})]),
            "spec.containers: muster.io/gpu-milli is at most 1000",
        ),
        (
            pod(containers=[{"name": "c", "ports": [{"containerPort": 70_000}]}]),
            "ports[0].containerPort: 70000 is not within 1..65535",
        ),
        (toleration(key="k", operator="Is"), "tolerations[0].operator: 'Is' is not one of"),
        (
            toleration(key="k", operator="Lt", value="07"),
            "tolerations[0].value: must be an integer with operator Lt",
        ),
        (toleration(value="v"), "tolerations[0].operator: must be Exists when key is empty"),
        (toleration(key="k", effect="Never"), "tolerations[0].effect: 'Never' is not one of"),
        (term(key="a", operator="In"), "values: must not be empty with operator In"),
        (term(key="a", operator="Exists", values=["x"]), "values: must be empty with operator"),
        (term(key="a", operator="Gt", values=["1", "2"]), "values: must be one value"),
        (term(key="a", operator="Like", values=["x"]), "operator: 'Like' is not one of"),
        (term(operator="Exists"), "key: is required"),
        (node(cpu="-4"), "Node n1: status.allocatable.cpu: '-4' is negative"),
        (
            NODE | {"status": {"images": [{"names": ["a:1"], "sizeBytes": -1}]}},
            "Node n1: status.images[0].sizeBytes: -1 is not within 0..",
        ),
        (
            NODE | {"status": {"images": [{"names": ["a:1"], "size": 1}]}},
            "Node n1: status.images[0].size: is an unknown field",
        ),
        (
            node(**{"nvidia.com/gpu": 1_000_001}),
            "allocatable.nvidia.com/gpu: 1000001 is more than 1000000",
        ),
        (NODE | {"spec": {"taint": []}}, "Node n1: spec.taint: is an unknown field"),
        (NODE | {"apiVersion": "v2"}, "Node n1: apiVersion: must be v1"),
        (controller("Deployment", "x", replicas=-1), "Deployment default/x: spec.replicas: -1"),
        (controller("Deployment", "x", replicas="3"), "spec.replicas: must be a whole number"),
        (controller("StatefulSet", "x", parallelism=1), "spec.parallelism: is an unknown field"),
        (priority_class("p", "high"), "PriorityClass p: value: must be a whole number"),
        (priority_class("p", 2_000_000_000), "PriorityClass p: value: 2000000000 is not within"),
        (budget(minAvailable="half"), "minAvailable: 'half' is neither a count nor a percentage"),
        (budget(minAvailable=1, maxUnavailable=1), "minAvailable and maxUnavailable exclude"),
        (workload(policy={}), "podGroups[0].policy: must be exactly one of basic, gang"),
        (workload(policy={"gang": {"minCount": 0}}), "minCount: 0 is not within 1..1000000"),
        (workload(policy={"gang": {}}), "policy.gang.minCount: is required"),
        (annotated(**{"arrives-after": "soon"}), "'soon' is not a duration such as"),
        (annotated(**{"runs-for": "-5s"}), "'-5s' is not a duration such as"),
        (pod("Bad_Name"), "metadata.name: 'Bad_Name' is not a name"),
        ({"kind": "Pod"}, "apiVersion: is required"),
        ({"apiVersion": "v1"}, "kind: is required"),
        ([1, 2], "must be an object, is [1, 2]"),
    ],
)
def test_bad_input_gets_one_line_with_file_object_field_and_rule(tmp_path, made, line):
    path = tmp_path / "in.yaml"
    path.write_text(yaml.safe_dump(made))
    text = refused(path)
    assert text.startswith(str(path))
    assert line in text


def test_duplicate_objects_name_both_places(tmp_path):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(pod()))
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(pod()))
    assert refused(tmp_path).endswith(f"is a duplicate of {tmp_path / 'a.yaml'} document 1")


def test_a_pod_with_the_name_of_a_controllers_pod_is_a_duplicate(tmp_path):
    path = tmp_path / "in.yaml"
    path.write_text(yaml.safe_dump_all([controller("Deployment", "x"), pod("x-0")]))
    assert "its pod x-0 is a duplicate of one of" in refused(path)


def test_a_policy_that_differs_from_that_of_the_class_is_refused(tmp_path):
    path = tmp_path / "in.yaml"
    made = pod(priorityClassName="c", preemptionPolicy="PreemptLowerPriority")
    path.write_text(yaml.safe_dump_all([priority_class("c", 1, preemptionPolicy="Never"), made]))
    told = "string value of PreemptionPolicy", "PreemptLowerPriority", "Never"
    assert not_given("preemptionPolicy", *told) in refused(path)


def test_two_global_defaults_are_refused(tmp_path):
    path = tmp_path / "in.yaml"
    classes = [priority_class(name, 1, globalDefault=True) for name in ("a", "b")]
    path.write_text(yaml.safe_dump_all(classes))
    assert "PriorityClass b: globalDefault: a is the default already" in refused(path)


def test_a_gang_larger_than_the_cluster_is_refused_at_its_min_count(tmp_path):
    path = tmp_path / "in.yaml"
    ref = {"workloadRef": {"name": "w", "podGroup": "g"}}
    members = [pod(f"m{n}", containers=[container(cpu="3")], **ref) for n in range(3)]
    gang = workload(policy={"gang": {"minCount": 3}})
    path.write_text(yaml.safe_dump_all([NODE, gang, *members]))
    assert refused(path) == (
        f"{path}: Workload default/w: spec.podGroups[name=g].policy.gang.minCount: "
        "3 members ask for 9000 cpu, the whole cluster has 8000"
    )


def test_a_pod_group_larger_than_the_cluster_is_refused_at_its_min_count(tmp_path):
    path = tmp_path / "in.yaml"
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 111}}},
    }
    path.write_text(yaml.safe_dump_all([NODE, group, pod(schedulingGroup={"podGroupName": "g"})]))
    assert refused(path) == (
        f"{path}: PodGroup default/g: spec.schedulingPolicy.gang.minCount: "
        "111 members ask for 111 pods, the whole cluster has 110"
    )


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("Node", "disruptionMode: must be Pod or PodGroup"),
        ({}, "disruptionMode: must be exactly one of single, all"),
        ({"all": {}, "single": {}}, "disruptionMode: must be exactly one of single, all"),
        ({"some": {}}, "disruptionMode.some: is an unknown field"),
        (7, "disruptionMode: must be an object"),
    ],
)
def test_a_disruption_mode_is_one_of_two(tmp_path, mode, why):
    path = tmp_path / "in.yaml"
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"basic": {}}, "disruptionMode": mode},
    }
    path.write_text(yaml.safe_dump_all([NODE, group]))
    assert refused(path).startswith(f"{path}: PodGroup default/g: spec.{why}")


def test_a_gang_of_more_pods_than_the_cluster_takes_is_refused_before_they_are_there(tmp_path):
    path = tmp_path / "in.yaml"
    one = pod("m", workloadRef={"name": "w", "podGroup": "g"})
    path.write_text(yaml.safe_dump_all([NODE, workload(policy={"gang": {"minCount": 111}}), one]))
    assert refused(path).endswith(": 111 members ask for 111 pods, the whole cluster has 110")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: Pod\nkind: Node\n", "line 2: 'kind' is a duplicate"),
        ("kind: [Pod\n", "cannot be decoded"),
        ("? {a: b}\n: c\n", "a key must be text"),
        ("%&", "cannot be decoded"),
    ],
)
def test_undecodable_files_are_named(tmp_path, text, line):
    path = tmp_path / "in.yaml"
    path.write_text(text)
    assert line in refused(path)


POD = "apiVersion: v1\nkind: Pod\n"
HUGE = {
    "depth": ("a: " + "[" * 30_000, "in.yaml: line 1: nests deeper than 100 levels"),
    "aliases": (MANY_ALIASES, "line 8: its aliases stand for more than 4,000,000 characters"),
    "a line": (POD + "x" * 9_000, "cannot be decoded"),
    "a list": (f"apiVersion: v1\nkind: [{'x' * 9_000}]", "kind: must be text, is ['xxx"),
    "a name": (POD + f"metadata: {{name: {'Y' * 9_000}}}", "YYY ...' is not a name"),
    "a field": (POD + f"metadata: {{name: a, ? {'x' * 9_000}: a}}", "xxx ...: is an unknown field"),
    "a number": (f"apiVersion: v1\nkind: 0x{'f' * 9_000}", "kind: must be text, is a number of"),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_input_is_refused_in_a_short_line(tmp_path, name):
    text, line = HUGE[name]
    path = tmp_path / "in.yaml"
    path.write_text(text)
    assert line in refused(path)
    assert len(refused(path)) < len(str(path)) + 500


def test_json_duplicates_and_rubbish_are_named(tmp_path):
    path = tmp_path / "in.json"
    path.write_text('{"kind": "Pod", "kind": "Node"}')
    assert "'kind' is a duplicate" in refused(path)
    path.write_text("{")
    assert "cannot be decoded" in refused(path)


def test_empty_folders_and_missing_paths_are_named(tmp_path):
    assert refused(tmp_path) == f"{tmp_path}: holds no manifest (.yaml, .yml or .json)"
    assert refused(tmp_path / "no") == f"{tmp_path / 'no'}: does not exist"
