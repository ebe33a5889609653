"""`muster score --kubeconfig` reads resource claims where pods use them."""

import pytest

from muster.cli.commands.cluster_case import list_claims, list_objects
from muster.cli.errors import Fault
from shared.kubernetes.client.kinds import OTHER_KINDS

VERSION = "resource.k8s.io/v1"
SERVED = ("deviceclasses", "resourceslices", "resourceclaims")


@pytest.fixture
def claims_api(api):
    """A server with a class and a claim; it has no DeviceTaintRules."""
    for resource in SERVED:
        if all(kind.resource != resource for kind in OTHER_KINDS):
            api.install(resource, VERSION, resource)
    api.put("deviceclasses", "gpu", spec={})
    api.put("resourceclaims", "c", spec={})
    return api


async def read(cluster) -> list[tuple[str, str, str]]:
    found = await list_objects(cluster.client)
    found += await list_claims(cluster.client, found)
    return sorted(
        (one["kind"], one["metadata"]["name"], one["apiVersion"])
        for one in found
        if one["apiVersion"] == VERSION
    )


async def test_claims_are_read_if_a_pod_uses_them(claims_api, cluster):
    claims_api.pod("p", resourceClaims=[{"name": "x", "resourceClaimName": "c"}])
    assert await read(cluster) == [("DeviceClass", "gpu", VERSION), ("ResourceClaim", "c", VERSION)]


async def test_without_such_pods_claims_are_not_asked_for(claims_api, cluster):
    claims_api.pod("p")
    await list_objects(cluster.client)
    before = len(claims_api.requests)
    assert await list_claims(cluster.client, [{"kind": "Pod", "spec": {}}]) == []
    assert len(claims_api.requests) == before


async def test_what_is_found_already_is_not_read_twice(claims_api, cluster):
    pod = {"kind": "Pod", "spec": {"resourceClaims": [{"name": "x"}]}}
    await cluster.client.open()
    found = await list_claims(cluster.client, [pod, {"kind": "DeviceClass"}])
    assert [one["kind"] for one in found] == ["ResourceClaim"]


async def test_a_list_that_is_not_permitted_is_named(claims_api, cluster):
    claims_api.pod("p", resourceClaims=[{"name": "x", "resourceClaimName": "c"}])
    found = [one for one in await list_objects(cluster.client) if one["kind"] == "Pod"]
    claims_api.fails("resourceslices", 403, "resourceslices is forbidden")
    with pytest.raises(Fault, match="resourceslices is forbidden"):
        await list_claims(cluster.client, found)
