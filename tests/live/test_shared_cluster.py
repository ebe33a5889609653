"""The cluster that modules share is empty for each of them, and its own objects stay."""

import pytest

from tests.live.support.objects import PODS, create_nodes, pod
from tests.live.support.shared_cluster import SharedCluster

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("kube")]
NAMESPACES = "/api/v1/namespaces"


def test_the_next_module_finds_nothing_of_the_last_one(shared_cluster: SharedCluster):
    servers = shared_cluster.emptied()
    api, before = servers.api, {one["metadata"]["uid"] for one in servers.api.items(NAMESPACES)}
    create_nodes(api, ["node-a"])
    api.create(NAMESPACES, {"metadata": {"name": "theirs"}}).ok()
    api.create(PODS, pod("theirs", nodeName="node-a")).ok()
    manager = servers.start_controller_manager()
    assert shared_cluster.emptied() is servers, "nothing is started for the next module"
    assert not manager.running
    assert api.items("/api/v1/nodes") == api.items(PODS) == []
    assert {one["metadata"]["uid"] for one in api.items(NAMESPACES)} == before
