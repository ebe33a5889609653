"""Pods that only a single shard can decide about are named before a run with several."""

from typing import Any

import pytest
import yaml

from muster.cli.profiles import needs_one_shard
from shared.worlds.manifests import manifests_world
from tests.support.kube_objects import deployment, node, pod

LABELS = {"matchLabels": {"app": "x"}}
HOST = "kubernetes.io/hostname"
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c"},
    "spec": {
        "accessModes": ["ReadWriteOncePod"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
VOLUME = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}


REF = {"name": "w", "podGroup": "g"}
GANG = {
    "apiVersion": "scheduling.k8s.io/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "w"},
    "spec": {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": 1}}}]},
}
TERM = {"labelSelector": LABELS, "topologyKey": "zone"}
AWAY = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}


def spread(policy: str) -> dict[str, Any]:
    """Return a Deployment of two pods that is spread by host."""
    how = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": policy, "labelSelector": LABELS}
    return deployment("x", 2, topologySpreadConstraints=[how])


def apart(key: str) -> dict[str, Any]:
    """Return a Deployment of two pods with anti-affinity."""
    term = {"labelSelector": LABELS, "topologyKey": key}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return deployment("x", 2, affinity={"podAntiAffinity": rule})


@pytest.fixture
def needing(tmp_path):
    """Return the pods of a world that need a single shard."""

    def found(*objects):
        path = tmp_path / "in.yaml"
        path.write_text(yaml.safe_dump_all([node("n"), *objects]))
        return needs_one_shard(manifests_world([path]))

    return found


@pytest.mark.parametrize(
    ("objects", "names"),
    [
        ([spread("DoNotSchedule")], []),
        ([apart("zone")], []),
        ([GANG, pod("m", workloadRef=REF, **AWAY)], ["default/m"]),
        ([GANG, pod("m", workloadRef=REF)], []),
        ([CLAIM, pod("p", volumes=[VOLUME])], []),
        ([GANG, CLAIM, pod("m", workloadRef=REF, volumes=[VOLUME])], ["default/m"]),
        ([GANG, CLAIM, pod("m", workloadRef=REF, volumes=[VOLUME], nodeName="n")], []),
        ([pod("p")], []),
    ],
)
def test_pods_are_named_whose_rules_reach_further_than_a_shard_sees(needing, objects, names):
    assert needing(*objects) == names
