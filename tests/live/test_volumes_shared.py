"""Volumes that any node reaches, on a real API: three shards want the same ones at once."""

import pytest

from tests.live.support.case import Case
from tests.live.support.objects import create_nodes, muster_run, nodes_of, until
from tests.live.test_volumes import VOLUMES, claim, storage_class, user_of, volume
from tests.support.kube_api import KubeApi
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    return cluster


def test_several_shards_choose_no_volume_twice(servers: KubeServers, case: Case, tmp_path):
    api = servers.api
    servers.start_controller_manager()
    create_nodes(api, [f"node-{letter}" for letter in "abcdef"])
    storage_class(api, "static", "kubernetes.io/no-provisioner")
    for number in range(6):
        claim(api, f"claim-{number}", "static")
        user_of(api, f"claim-{number}")
    for number in range(3):
        volume(api, f"disk-{number}", "static", "", nodeAffinity=None)
    until("the volumes are free", lambda: _phases(api) == ["Available"] * 3)
    with muster_run(servers.kubeconfig, tmp_path, "-p", "3", "-o", "json") as muster:
        until("the volumes have pods", lambda: sum(map(bool, nodes_of(api).values())) == 3)
        for number in range(3, 6):
            volume(api, f"disk-{number}", "static", "", nodeAffinity=None)
        until("all pods are bound", lambda: all(nodes_of(api).values()))
        muster.stop()
    assert _phases(api) == ["Bound"] * 6
    assert case.check(tmp_path / "run").bound == 6


def _phases(api: KubeApi) -> list[str]:
    return [one["status"].get("phase", "") for one in api.items(VOLUMES)]
