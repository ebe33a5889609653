"""A gang whose members get resource claims from a template, on a real API: all members get devices,
or no claim does.
"""

import pytest

from shared.model.release import V1_37
from tests.live.support.case import Case
from tests.live.support.objects import create_nodes, muster_run, nodes_of, until
from tests.live.test_claims import NODES, ROOT, devices, given, user
from tests.live.test_pending_pods import messages
from tests.live.test_releases import create_group, member_of
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
