"""Muster schedules on each release of Kubernetes: rules, a volume, a gang and preemption.

The other live tests run on the newest release; those of a release's own API of gangs, on that one.
"""

import time
from typing import Any

import pytest

from shared.model.release import V1_35, V1_36, V1_37, VERSIONS
from tests.live.conftest import NewCluster
from tests.live.support.case import Case
from tests.live.support.objects import PODS, create_nodes, muster_run, nodes_of, pod, until
from tests.live.test_scheduling import CLASSES, leaving
from tests.live.test_volumes import claim, phase, storage_class, user_of, volume
from tests.support.kube_api import KubeApi
from tests.support.kube_options import RELEASES, KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
HOST = "kubernetes.io/hostname"
GROUP = "/apis/scheduling.k8s.io"
GANGS_OF = {V1_35: "v1alpha1", V1_36: "v1alpha2", V1_37: "v1beta1"}
NODES = [f"node-{name}" for name in "abc"]
LAST, ANY = "node-last", {"operator": "Exists"}


@pytest.fixture(scope="module", params=VERSIONS)
def servers(request: pytest.FixtureRequest, new_cluster: NewCluster) -> KubeServers:
    """A cluster of each release, with a node that only preemption is for."""
    servers = new_cluster(KubeOptions(version=request.param, storage_json=True))
    create_nodes(servers.api, [*NODES, LAST], cpu=4)
    taint = {"key": "last", "value": "yes", "effect": "NoSchedule"}
    servers.api.request("PATCH", f"/api/v1/nodes/{LAST}", {"spec": {"taints": [taint]}}).ok()
    for name, value in (("low", 10), ("high", 1000)):
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        servers.api.create(CLASSES, {**made, "metadata": {"name": name}}).ok()
    servers.start_controller_manager()
    return servers


def create(api: KubeApi, name: str, app: str = "test", **more: Any) -> None:
    body = pod(name, **more)
    body["metadata"]["labels"] = {"app": app}
    api.create(PODS, body).ok()


def member_of(version: str, group: str) -> dict[str, Any]:
    """Return what members of the gang have in their spec."""
    if version == V1_35:
        return {"workloadRef": {"name": group, "podGroup": "all"}}
    return {"schedulingGroup": {"podGroupName": group}}


def create_group(servers: KubeServers, name: str, min_count: int) -> None:
    """Create a gang as the release has it."""
    version = servers.options.version
    path = f"{GROUP}/{GANGS_OF[version]}/namespaces/default"
    made = {"apiVersion": f"scheduling.k8s.io/{GANGS_OF[version]}", "metadata": {"name": name}}
    policy = {"gang": {"minCount": min_count}}
    if version == V1_35:
        spec = {"podGroups": [{"name": "all", "policy": policy}]}
        servers.api.create(f"{path}/workloads", {**made, "kind": "Workload", "spec": spec}).ok()
    else:
        group = {**made, "kind": "PodGroup", "spec": {"schedulingPolicy": policy}}
        servers.api.create(f"{path}/podgroups", group).ok()


def test_gangs_are_served_in_one_version(servers: KubeServers):
    version = servers.options.version
    served = servers.api.get(GROUP).ok()["versions"]
    assert [one["version"] for one in served] == ["v1", GANGS_OF[version]]
    member = member_of(version, "training")
    made = servers.api.create(f"{PODS}?dryRun=All", pod("member", **member)).ok()
    assert made["spec"].items() >= member.items()


def test_pods_are_bound_where_their_rules_and_volumes_want_them(
    servers: KubeServers, case: Case, tmp_path
):
    api, match = servers.api, {"labelSelector": {"matchLabels": {"app": "spread"}}}
    said = api.get("/version").ok()["gitVersion"]
    assert said == RELEASES[servers.options.version].git_version
    spread = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", **match}
    near = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST, **match}]}
    storage_class(api, "static", "kubernetes.io/no-provisioner")
    with muster_run(servers.kubeconfig, tmp_path) as muster:
        for number in range(3):
            create(api, f"spread-{number}", "spread", topologySpreadConstraints=[spread])
        until("they are apart", lambda: sorted(nodes_of(api).values()) == NODES)
        create(api, "beside", affinity={"podAffinity": near}, nodeSelector={HOST: NODES[1]})
        create(api, "apart", affinity={"podAntiAffinity": near}, tolerations=[ANY])
        claim(api, "disk", "static")
        user_of(api, "disk")
        volume(api, "disk", "static", NODES[2])
        places = {"beside": NODES[1], "apart": LAST, "with-disk": NODES[2]}
        until("the rules hold", lambda: nodes_of(api).items() >= places.items())
        assert phase(api, "disk") == "Bound"

        member = member_of(servers.options.version, "team")
        for number in range(2):
            create(api, f"member-{number}", **member)
        create(api, "other")
        until("the other is bound", lambda: bool(nodes_of(api)["other"]))
        create_group(servers, "team", 3)
        time.sleep(1.5)
        assert [nodes_of(api)[f"member-{number}"] for number in range(2)] == ["", ""]
        create(api, "member-2", **member)
        until("the gang is bound", lambda: all(nodes_of(api)[f"member-{n}"] for n in range(3)))

        last = {"nodeSelector": {HOST: LAST}, "tolerations": [ANY], "cpu": "3"}
        create(api, "low", priorityClassName="low", **last)
        until("the victim is bound", lambda: nodes_of(api)["low"] == LAST)
        create(api, "high", priorityClassName="high", **last)
        # No kubelet ends the victim.
        until("it has to go", lambda: leaving(servers) == ["low"])
        api.request("DELETE", f"{PODS}/low?gracePeriodSeconds=0").ok()
        until("its place is taken", lambda: nodes_of(api)["high"] == LAST)
        muster.stop()
    case.check(tmp_path / "run")
