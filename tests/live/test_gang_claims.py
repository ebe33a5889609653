"""Gangs with resource claims on a real API: all members get devices, or no claim does; and members
share a claim.
"""

from typing import Any

import pytest

from shared.model.release import V1_37
from tests.live.support.case import Case
from tests.live.support.objects import PODS, create_nodes, muster_run, nodes_of, pod, until
from tests.live.test_claims import CLAIMS, NODES, ROOT, devices, given, user
from tests.live.test_pending_pods import messages
from tests.live.test_releases import create_group, member_of
from tests.support.kube_api import KubeApi
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
MEMBERS = [f"member-{number}" for number in range(4)]


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    return cluster


def test_all_members_get_devices_or_none(servers: KubeServers, case: Case, tmp_path):
    api = servers.api
    servers.start_controller_manager(("resourceclaim-controller",))
    create_nodes(api, list(NODES))
    devices(servers)
    follow = ("--compatibility-version", V1_37, "-p", "2", "-o", "json")
    with muster_run(servers.kubeconfig, tmp_path, *follow) as muster:
        create_group(servers, "all", len(MEMBERS))
        for name in MEMBERS:
            user(api, name, **member_of(V1_37, "all"))
        why = "cannot allocate all claims"
        until("it says why", lambda: all(why in text for text in messages(servers, *MEMBERS)))
        assert not any(nodes_of(api).values())
        assert given(api) == {}
        api.request("DELETE", f"{ROOT}/devicetaintrules/tainted", {}).ok()
        until("all are bound", lambda: all(nodes_of(api).values()))
        has = given(api)
        assert {name: pool for name, (pool, _) in has.items()} == nodes_of(api)
        assert len(set(has.values())) == len(MEMBERS), "two claims have one device"
        muster.stop()
    assert case.check(tmp_path / "run").bound == len(MEMBERS)


def make(api: KubeApi, path: str, kind: str, name: str, spec: Any) -> None:
    made = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
    api.create(path, {**made, "spec": spec}).ok()


def test_members_share_one_claim(servers: KubeServers, tmp_path):
    api, driver = servers.api, "fabric.example.com"
    cel = {"expression": f'device.driver == "{driver}"'}
    make(api, f"{ROOT}/deviceclasses", "DeviceClass", "fabric", {"selectors": [{"cel": cel}]})
    pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "allNodes": True, "pool": pool, "devices": [{"name": "channel-0"}]}
    make(api, f"{ROOT}/resourceslices", "ResourceSlice", "fabric", spec)
    request = {"name": "channel", "exactly": {"deviceClassName": "fabric"}}
    make(api, CLAIMS, "ResourceClaim", "shared", {"devices": {"requests": [request]}})
    create_group(servers, "sharing", len(MEMBERS))
    names = [f"sharing-{number}" for number in range(len(MEMBERS))]
    for name in names:
        uses = [{"name": "channel", "resourceClaimName": "shared"}]
        api.create(PODS, pod(name, resourceClaims=uses, **member_of(V1_37, "sharing"))).ok()
    with muster_run(servers.kubeconfig, tmp_path, "-o", "json") as muster:
        until("all are bound", lambda: all(nodes_of(api).values()))
        muster.stop()
    users = api.get(f"{CLAIMS}/shared").ok()["status"]["reservedFor"]
    assert sorted(user["name"] for user in users) == names
