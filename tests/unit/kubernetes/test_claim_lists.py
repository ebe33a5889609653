"""`muster score --kubeconfig` reads resource claims, and what they are about."""

import pytest

from muster.cli.commands.cluster_case import list_objects
from muster.cli.errors import Fault

VERSION = "resource.k8s.io/v1"


async def test_claims_are_read(api, cluster):
    api.put("deviceclasses", "gpu", spec={})
    api.put("resourceclaims", "c", spec={})
    found = await list_objects(cluster.client)
    assert [
        (one["kind"], one["metadata"]["name"]) for one in found if one["apiVersion"] == VERSION
    ] == [("DeviceClass", "gpu"), ("ResourceClaim", "c")]


async def test_servers_without_taint_rules_are_not_warned_of(api, cluster, caplog):
    api.fails("devicetaintrules", 404, "not found")
    await list_objects(cluster.client)
    assert "not served" not in caplog.text


async def test_a_list_that_is_not_permitted_is_named(api, cluster):
    api.fails("resourceslices", 403, "resourceslices is forbidden")
    with pytest.raises(Fault, match="resourceslices is forbidden"):
        await list_objects(cluster.client)
