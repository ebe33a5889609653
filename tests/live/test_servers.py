"""The real servers come up as the live tests need them, and do what the product relies on."""

import ssl
from contextlib import closing

import pytest

from shared.testing.kube_api import KubeApi
from shared.testing.kube_credentials import ADMIN, User, make_certificates, verifying
from shared.testing.kube_options import KUBERNETES_VERSION
from shared.testing.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("kube")]


def test_the_servers_are_of_the_version_that_is_asked_for(cluster: KubeServers):
    assert cluster.api.get("/version").ok()["gitVersion"] == KUBERNETES_VERSION


def test_kubectl_works_through_the_written_kubeconfig(cluster: KubeServers):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "seen-by-kubectl"}}
    cluster.api.create("/api/v1/nodes", node).ok()
    assert "node/seen-by-kubectl" in cluster.kubectl("get", "nodes", "-o", "name").split()


def test_another_authority_is_not_trusted(cluster: KubeServers, tmp_path):
    make_certificates(tmp_path)
    tls = verifying(tmp_path / "ca.crt")
    with (
        closing(KubeApi(cluster.url, ADMIN.token, tls)) as api,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        api.get("/version")


def test_a_wrong_token_is_refused(cluster: KubeServers):
    with closing(cluster.client(User("nobody"))) as api:
        assert api.get("/api/v1/nodes").status == 401
