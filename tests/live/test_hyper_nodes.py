"""HyperNodes of Volcano on a real API server of 1.37, without Volcano's programs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import NewCluster
from tests.live.support.case import Case
from tests.live.support.objects import (
    PODS,
    ROOT,
    Running,
    create_nodes,
    delete_pods,
    muster_run,
    nodes_of,
    pod,
    until,
)
from tests.support.kube_api import KubeApi
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
CRDS = ROOT / "tests" / "live" / "support" / "group_crds.yaml"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
NODES = ("a-0", "a-1", "b-0", "b-1", "outside")


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    servers = new_cluster(KubeOptions(storage_json=True))
    servers.kubectl("apply", "-f", str(CRDS))
    servers.wait_for_crds()
    create_nodes(servers.api, list(NODES), cpu=1)
    create_hyper_node(servers.api, "a", 1, exactMatch={"name": "a-0"})
    create_hyper_node(servers.api, "b", 1, regexMatch={"pattern": r"^b-\d+$"})
    return servers


@pytest.fixture
def muster(servers: KubeServers, case: Case, tmp_path: Path) -> Iterator[Running]:
    """Run Muster; check the run and delete all pods afterwards."""
    with muster_run(servers.kubeconfig, tmp_path) as running:
        yield running
    case.check(tmp_path / "run")
    delete_pods(servers.api)


def create_hyper_node(api: KubeApi, name: str, tier: int, kind: str = "Node", **selector: Any):
    meta = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode"}
    spec = {"tier": tier, "members": [{"type": kind, "selector": selector}]}
    api.create(HYPER_NODES, {**meta, "metadata": {"name": name}, "spec": spec}).ok()


def create_group(api: KubeApi, name: str, members: int, **topology: Any) -> None:
    """Create a group and its members, of which each node takes one."""
    meta = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    spec = {"minMember": members, "networkTopology": topology}
    api.create(GROUPS, {**meta, "metadata": {"name": name}, "spec": spec}).ok()
    for number in range(members):
        body = pod(f"{name}-{number}", cpu="600m")
        body["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
        api.create(PODS, body).ok()


def where(api: KubeApi, group: str) -> set[str]:
    """Return the nodes of a group's members."""
    found = nodes_of(api)
    return {node for name, node in found.items() if name.startswith(f"{group}-") and node}


def test_groups_follow_the_tree(servers: KubeServers, muster: Running):
    api = servers.api
    create_group(api, "hard", 2, mode="hard", highestTierAllowed=1)
    until("one HyperNode has room", lambda: where(api, "hard") == {"b-0", "b-1"})
    create_group(api, "more", 2, highestTierAllowed=1)
    create_group(api, "soft", 2, mode="soft")
    until("a soft group goes anywhere", lambda: len(where(api, "soft")) == 2)
    assert where(api, "soft") <= {"a-0", "a-1", "outside"}
    assert where(api, "more") == set()
    api.request("DELETE", f"{PODS}/soft-0?gracePeriodSeconds=0").ok()
    api.request("DELETE", f"{PODS}/soft-1?gracePeriodSeconds=0").ok()
    # Its node belongs to another one: it is left out, and said so.
    create_hyper_node(api, "wrong", 1, exactMatch={"name": "a-0"})
    until("it is named", lambda: "HyperNode wrong is left out" in muster.said())
    member = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "a"}}}}
    labels = {"metadata": {"labels": {"rack": "a"}}}
    for node in ("a-0", "a-1"):
        api.request("PATCH", f"/api/v1/nodes/{node}", labels).ok()
    patch = {"spec": {"members": [member]}}
    path = f"{HYPER_NODES}/a"
    api.request("PATCH", path, patch, content_type="application/merge-patch+json").ok()
    until("it starts with the new member", lambda: where(api, "more") == {"a-0", "a-1"})
