"""Worlds refuse what an API server refuses, and annotations of Muster that would do nothing."""

from typing import Any

import pytest
import yaml

from shared.kubernetes.objects.errors import WorldError
from shared.worlds.api_rules import ARRIVES_AFTER
from shared.worlds.manifests import manifests_world
from tests.support.kube_objects import deployment, job, node, pod, pod_spec

REQUESTS = "spec.containers[0].resources.requests"
A_RESOURCE = (
    "is neither cpu, memory, ephemeral-storage nor hugepages-SIZE, nor has it a domain, "
    "as nvidia.com/gpu has"
)


def requests(**amounts: str) -> dict[str, Any]:
    """A pod's spec with requests and limits of these resources."""
    spec = pod_spec()
    spec["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return spec


def asking(name: str, **amounts: str) -> dict[str, Any]:
    """A pod that asks for these amounts."""
    return pod(name) | {"spec": requests(**amounts)}


def selecting(kind: str, selector: dict[str, Any] | None) -> dict[str, Any]:
    """A controller of pods with app=x and another selector."""
    made = deployment("x", 1) | {"kind": kind}
    del made["spec"]["selector"]
    if kind == "StatefulSet":
        made["spec"]["serviceName"] = "x"
    if kind == "DaemonSet":
        del made["spec"]["replicas"]
    if selector is not None:
        made["spec"]["selector"] = selector
    return made


def with_notes(made: dict[str, Any], *path: str, **notes: str) -> dict[str, Any]:
    """The object with annotations of Muster in the metadata below a path."""
    holder = made
    for key in path:
        holder = holder[key]
    named = {f"muster.io/{key.replace('_', '-')}": value for key, value in notes.items()}
    holder["metadata"]["annotations"] = named
    return made


def workload(**notes: str) -> dict[str, Any]:
    """A Workload with annotations of Muster."""
    made = {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": 1}}}]},
    }
    return with_notes(made, **notes)


OTHER = {"matchLabels": {"app": "y"}}
NOT_IN = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}
NOTES = "metadata.annotations"
MEANT = f"did you mean {ARRIVES_AFTER}?"
UNMATCHED = "spec.template.metadata.labels: {'app': 'x'} does not match spec.selector"

API_REFUSES = [
    (selecting("Deployment", OTHER), f"Deployment default/x: {UNMATCHED}"),
    (selecting("Deployment", NOT_IN), UNMATCHED),
    (selecting("Deployment", None), "spec.selector: is required"),
    (selecting("Deployment", {}), "spec.selector: must not be empty"),
    (selecting("ReplicaSet", OTHER), UNMATCHED),
    (selecting("StatefulSet", OTHER), UNMATCHED),
    (selecting("DaemonSet", OTHER), UNMATCHED),
    (asking("p", cpus="1"), f"{REQUESTS}.cpus: {A_RESOURCE}; did you mean cpu?"),
    (asking("p", gpu="1"), f"{REQUESTS}.gpu: {A_RESOURCE}"),
    (asking("p", pods="1"), f"{REQUESTS}.pods: {A_RESOURCE}"),
    (deployment("x", 1, overhead={"memry": "1"}), "spec.overhead.memry: is neither"),
    (pod("p", nodeSelecter={}), "spec.nodeSelecter: is an unknown field"),
]
"""Objects that an API server refuses, with what a world says."""

API_TAKES = [
    asking("p", cpu="1", memory="1Mi", **{"ephemeral-storage": "1Mi", "hugepages-2Mi": "2Mi"}),
    asking("p", **{"nvidia.com/gpu": "1", "example.com/fpga": "2"}),
    node("n") | {"status": {"capacity": {"pods": "3", "attachable-volumes-aws-ebs": "25"}}},
    selecting("Deployment", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
    with_notes(job("j", 1), arrives_after="1s", runs_for="1m"),
    selecting("ReplicaSet", {"matchLabels": {"app": "x"}}),
]
"""Objects that an API server takes, and so does a world."""

MUSTER_REFUSES = [
    (asking("p", **{"gpu-milli": "500"}), f"{A_RESOURCE}; did you mean muster.io/gpu-milli?"),
    (node("n", labels={}) | {"status": {"allocatable": {"cpus": "4"}}}, "did you mean cpu?"),
    (
        with_notes(pod("p"), arives_after="1s"),
        f"Pod default/p: {NOTES}.muster.io/arives-after: is an unknown annotation; {MEANT}",
    ),
    (with_notes(job("j", 1), colour="red"), "muster.io/colour: is an unknown annotation"),
    (
        with_notes(job("j", 1), "spec", "template", arrives_after="5s"),
        f"spec.template.{NOTES}.{ARRIVES_AFTER}: belongs in {NOTES} of the Job itself",
    ),
    (
        with_notes(job("j", 1), "spec", "template", runs_fro="5s"),
        "is an unknown annotation; did you mean muster.io/runs-for?",
    ),
    (with_notes(job("j", 1), gang_timeout="5s"), "muster.io/gang-timeout: belongs on a Workload"),
    (
        with_notes(job("j", 1), "spec", "template", gang_timeout="5s"),
        "muster.io/gang-timeout: belongs on a Workload",
    ),
    (
        workload(runs_for="5s"),
        "muster.io/runs-for: belongs on a pod or on the object that makes it, not on a Workload",
    ),
    (
        with_notes(node("n"), arrives_after="5s"),
        "muster.io/arrives-after: belongs on a pod or on the object that makes it, not on a Node",
    ),
    (pod("p", nodeSelecter={}), "is an unknown field; did you mean nodeSelector?"),
    (
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PodGroup", "metadata": {"name": "g"}},
        "apiVersion: must be scheduling.k8s.io/v1beta1 or scheduling.k8s.io/v1alpha3 or ",
    ),
]


@pytest.mark.parametrize(("made", "line"), API_REFUSES + MUSTER_REFUSES)
def test_an_object_that_would_not_do_what_it_says_is_refused(tmp_path, made, line):
    path = tmp_path / "in.yaml"
    path.write_text(yaml.safe_dump(made))
    with pytest.raises(WorldError) as raised:
        manifests_world([path])
    assert str(raised.value).startswith(f"{path}")
    assert line in str(raised.value)


@pytest.mark.parametrize("made", [*API_TAKES, workload(gang_timeout="5s")])
def test_objects_that_an_api_server_takes_are_taken(tmp_path, made):
    path = tmp_path / "in.yaml"
    path.write_text(yaml.safe_dump(made))
    manifests_world([path])


def test_a_misspelt_kind_is_ignored_with_a_suggestion(tmp_path):
    path = tmp_path / "in.yaml"
    path.write_text(yaml.safe_dump(deployment("x", 1) | {"kind": "Deploymnet"}))
    (rejected,) = manifests_world([path]).rejected
    assert rejected.rule.endswith("; did you mean Deployment?")


@pytest.mark.parametrize("kind", ["ServiceAccount", "CronJob", "PodTemplate", "Role"])
def test_a_custom_kind_is_ignored_without_a_suggestion(tmp_path, kind):
    path = tmp_path / "in.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}}))
    (rejected,) = manifests_world([path]).rejected
    assert "did you mean" not in rejected.rule
