"""The real servers start as the live tests need them, and run pods from Deployment to Running."""

import ssl
from contextlib import closing

import pytest

from muster.cli.addresses.kube import server_version
from shared.model.release import V1_37
from tests.support.kube_api import KubeApi
from tests.support.kube_credentials import ADMIN, SCHEDULER, User, make_certificates, verifying
from tests.support.kube_objects import deployment, eventually, job, node
from tests.support.kube_options import RELEASES
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("kube")]
PODS = "/api/v1/namespaces/default/pods"
REPLICAS = 20


@pytest.fixture(scope="module")
def whole_cluster(cluster: KubeServers) -> KubeServers:
    """Start servers with nodes and everything that creates, schedules and runs pods."""
    for number in range(3):
        cluster.api.create("/api/v1/nodes", node(f"node-{number}")).ok()
    cluster.start_kwok()
    cluster.start_controller_manager()
    cluster.start_scheduler()
    return cluster


def pods_of(servers: KubeServers, app: str, phase: str) -> list[dict]:
    found = servers.api.items(f"{PODS}?labelSelector=app%3D{app}")
    return [pod for pod in found if pod["status"].get("phase") == phase]


def test_the_servers_have_the_requested_version(cluster: KubeServers):
    assert cluster.api.get("/version").ok()["gitVersion"] == RELEASES[V1_37].git_version
    assert server_version(str(cluster.kubeconfig)) == V1_37


def test_another_authority_is_not_trusted(cluster: KubeServers, tmp_path):
    make_certificates(tmp_path)
    tls = verifying(tmp_path / "ca.crt")
    with (
        closing(KubeApi(cluster.url, ADMIN.token, tls)) as api,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        api.get("/version")


def test_the_kubeconfig_trusts_the_one_authority(cluster: KubeServers, tmp_path):
    assert "default" in cluster.kubectl("get", "namespaces")
    make_certificates(tmp_path)
    config = cluster.kubeconfig.read_text(encoding="utf-8")
    assert str(cluster.at.ca_path) in config
    other = tmp_path / "kubeconfig"
    other.write_text(config.replace(str(cluster.at.pki), str(tmp_path)), encoding="utf-8")
    with pytest.raises(RuntimeError, match="certificate signed by unknown authority"):
        cluster.kubectl(f"--kubeconfig={other}", "get", "nodes")


def test_a_wrong_token_is_refused(cluster: KubeServers):
    with closing(cluster.client(User("nobody"))) as api:
        assert api.get("/api/v1/nodes").status == 401


def test_a_deployment_is_scheduled_and_runs(whole_cluster: KubeServers):
    servers = whole_cluster
    made = deployment("web", REPLICAS)
    servers.api.create("/apis/apps/v1/namespaces/default/deployments", made).ok()
    eventually(lambda: len(pods_of(servers, "web", "Running")) == REPLICAS, "all pods run")
    running = pods_of(servers, "web", "Running")
    nodes = servers.kubectl("get", "nodes").splitlines()[1:]
    assert [line.split()[:2] for line in nodes] == [[f"node-{n}", "Ready"] for n in range(3)]
    assert {pod["spec"]["nodeName"] for pod in running} == {line.split()[0] for line in nodes}
    assert sorted(bound_by(servers, SCHEDULER, "web-")) == sorted(
        (pod["metadata"]["name"], pod["spec"]["nodeName"]) for pod in running
    )


def bound_by(servers: KubeServers, user: User, prefix: str) -> list[tuple[str, str]]:
    """Return pod and node of every accepted bind of this user in the audit log."""
    return [
        (event["objectRef"]["name"], event["requestObject"]["target"]["name"])
        for event in servers.audit_events()
        if event["objectRef"].get("subresource") == "binding"
        and event["objectRef"]["name"].startswith(prefix)
        and event["responseStatus"]["code"] == 201
        and event["user"]["username"] == user.name
    ]


def test_a_job_completes(whole_cluster: KubeServers):
    servers = whole_cluster
    servers.api.create("/apis/batch/v1/namespaces/default/jobs", job("sums", 5)).ok()
    done = "/apis/batch/v1/namespaces/default/jobs/sums"
    eventually(
        lambda: servers.api.get(done).ok()["status"].get("succeeded") == 5, "the Job has succeeded"
    )
    assert len(pods_of(servers, "sums", "Succeeded")) == 5
