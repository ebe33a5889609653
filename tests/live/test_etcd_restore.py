"""etcd restored from a copy of its data: a running and a later process notice, and
nothing is lost.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import NewCluster
from tests.live.support.objects import (
    PODS,
    create_nodes,
    delete_pods,
    muster_run,
    nodes_of,
    pod,
    until,
)
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]

CPU, EACH = 4, 8
"""One node's processors, and the pods of 500m that fill it."""
FREED = {"nodeSelector": {"freed": "yes"}}


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    servers = new_cluster(KubeOptions())
    create_nodes(servers.api, ["node-0", "node-1"], cpu=CPU)
    return servers


def stop(servers: KubeServers) -> None:
    for server in (servers.api_server, servers.etcd):
        server.kill()
    servers.api.close()


def start(servers: KubeServers) -> None:
    servers.etcd.start()
    servers.api_server.start()


def copy_data(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def create(servers: KubeServers, stem: str, count: int, **spec: Any) -> list[str]:
    names = [f"{stem}-{number}" for number in range(count)]
    for name in names:
        servers.api.create(PODS, pod(name, cpu="500m", **spec)).ok()
    return names


def until_bound(servers: KubeServers, names: list[str]) -> None:
    def are_bound() -> bool:
        found = nodes_of(servers.api)
        return all(found.get(name) for name in names)

    until(f"bound: {', '.join(names)}", are_bound)


@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed"])
def test_a_restored_etcd_loses_no_pod_and_no_room(servers: KubeServers, tmp_path, is_killed):
    """Vanished pods release their room, pods with an undone bind are bound again, and new pods are
    seen. All at once they need all the room.
    """
    data, backup = servers.folder / "etcd", tmp_path / "backup"
    delete_pods(servers.api)
    servers.kubectl("label", "node", "--all", "freed-")
    with muster_run(servers.kubeconfig, tmp_path) as muster:
        kept = create(servers, "kept", 2)
        undone = create(servers, "undone", 2, **FREED)
        until_bound(servers, kept)
        stop(servers)
        copy_data(data, backup)
        start(servers)
        servers.kubectl("label", "node", "--all", "freed=yes")
        vanished = create(servers, "vanished", 2 * EACH - 4)
        until_bound(servers, [*undone, *vanished])
        places = nodes_of(servers.api)
        if is_killed:
            muster.kill()
        stop(servers)
        copy_data(backup, data)
        start(servers)
        again = muster_run(servers.kubeconfig, tmp_path) if is_killed else muster
        with again:
            servers.kubectl("label", "node", "--all", "freed=yes")
            after = create(servers, "after", 2 * EACH - 4)
            until_bound(servers, [*undone, *after])
            found = nodes_of(servers.api)
            assert sorted(found) == sorted([*kept, *undone, *after])
            assert [found[name] for name in kept] == [places[name] for name in kept]
            assert sorted(found.values()) == ["node-0"] * EACH + ["node-1"] * EACH
            again.stop()
        assert "the cluster was restored from a backup (" in again.said()
