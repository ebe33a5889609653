"""A gang whose members have claims, on a real API: all members get volumes, or none is bound."""

import pytest

from shared.model.release import V1_35
from tests.live.conftest import NewCluster
from tests.live.support.case import Case
from tests.live.support.objects import PODS, create_nodes, muster_run, nodes_of, pod, until
from tests.live.test_pending_pods import REF, WORKLOADS, messages, workload
from tests.live.test_volumes import claim, phase, storage_class, volume
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
MEMBERS = ("one", "two", "three")


@pytest.fixture(scope="module", params=["1", "2"])
def placements(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster, placements: str) -> KubeServers:
    """A cluster for each number of shards."""
    return new_cluster(KubeOptions(version=V1_35, storage_json=True))


def test_all_members_get_volumes_or_none(
    servers: KubeServers, case: Case, tmp_path, placements: str
):
    api = servers.api
    servers.start_controller_manager()
    create_nodes(api, [f"node-{name}" for name in MEMBERS])
    storage_class(api, "static", "kubernetes.io/no-provisioner")
    api.create(WORKLOADS, workload(3)).ok()
    for name in MEMBERS:
        claim(api, name, "static")
        used = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        api.create(PODS, pod(name, volumes=used, workloadRef=REF)).ok()
    for name in MEMBERS[:2]:
        volume(api, f"disk-{name}", "static", f"node-{name}")
    with muster_run(servers.kubeconfig, tmp_path, "-p", placements, "-o", "json") as muster:
        until(
            "the gang says why",
            lambda: all("persistent volumes" in text for text in messages(servers, *MEMBERS)),
        )
        assert not any(nodes_of(api).values())
        assert {phase(api, name) for name in MEMBERS} == {"Pending"}
        volume(api, "disk-three", "static", "node-three")
        until("all are bound", lambda: all(nodes_of(api).values()))
        muster.stop()
    assert sorted(nodes_of(api).values()) == sorted(f"node-{name}" for name in MEMBERS)
    assert {phase(api, name) for name in MEMBERS} == {"Bound"}
    assert case.check(tmp_path / "run").bound == 3
