"""Resource claims at the API server: written before the bind to the version that was known, and
given back so that no older write can land.
"""

from typing import Any

import pytest

from shared.kubernetes.cluster import KubeCluster
from shared.model.api_outcome import Answer
from shared.model.claims import Allocation, ClaimChoice, DeviceResult
from shared.ports.cluster import ClaimsRequest, PodRef
from tests.unit.kubernetes.fake_api import FakeApi

FINALIZER = "resource.kubernetes.io/delete-protection"
POD = PodRef("uid-p", "default", "p")
USER = {"resource": "pods", "name": "p", "uid": "uid-p"}
OTHER = {"resource": "pods", "name": "q", "uid": "uid-q"}
RESULT = {"request": "r", "driver": "d", "pool": "p", "device": "x"}
HAS = Allocation((DeviceResult("r", "d", "p", "x"),))
WRITTEN = {"devices": {"results": [RESULT]}}
ELSEWHERE = {"devices": {"results": [RESULT | {"device": "y"}]}}


def claim(api: FakeApi, **status: Any) -> ClaimChoice:
    made = api.put("resourceclaims", "c", spec={}, status=status)
    return ClaimChoice("default", "c", "uid-c", int(made["metadata"]["resourceVersion"]), HAS)


async def write(cluster: KubeCluster, choice: ClaimChoice, *, back: bool = False) -> Answer:
    (answer,) = await cluster.write_claims([ClaimsRequest(POD, (choice,), back)])
    return answer


def held(api: FakeApi) -> tuple[Any, list[str], list[str]]:
    """Return the claim's devices, its users, and its finalizers."""
    one = api.objects["resourceclaims"]["c"]
    status = one.get("status") or {}
    results = (status.get("allocation") or {}).get("devices", {}).get("results")
    users = [user["name"] for user in status.get("reservedFor") or []]
    return results, users, one["metadata"].get("finalizers") or []


async def test_devices_and_user_are_written_once(cluster: KubeCluster, api: FakeApi):
    choice = claim(api)
    assert await write(cluster, choice) is Answer.DONE
    assert held(api) == ([RESULT], ["p"], [FINALIZER])
    stamp = api.objects["resourceclaims"]["c"]["status"]["allocation"]["allocationTimestamp"]
    assert stamp.endswith("Z")
    revision = api.revision
    assert await write(cluster, choice) is Answer.DONE
    assert api.revision == revision


@pytest.mark.parametrize(
    ("status", "answer", "users"),
    [
        ({"allocation": WRITTEN, "reservedFor": [OTHER]}, Answer.DONE, ["q", "p"]),
        ({"allocation": ELSEWHERE, "reservedFor": [OTHER]}, Answer.REFUSED, ["q"]),
    ],
)
async def test_devices_that_a_claim_has_are_kept(
    cluster: KubeCluster, api: FakeApi, status, answer, users
):
    assert await write(cluster, claim(api, **status)) is answer
    assert held(api)[1] == users


async def test_devices_are_written_to_no_other_version(cluster: KubeCluster, api: FakeApi):
    choice = claim(api)
    claim(api, devices=[])
    assert await write(cluster, choice) is Answer.REFUSED
    assert held(api) == (None, [], [])


async def test_no_older_write_lands_after_a_claim_was_given_back(
    cluster: KubeCluster, api: FakeApi
):
    choice = claim(api)
    assert await write(cluster, choice, back=True) is Answer.DONE
    assert held(api) == (None, [], [])
    assert await write(cluster, choice) is Answer.REFUSED


async def test_devices_without_users_are_given_back(cluster: KubeCluster, api: FakeApi):
    choice = claim(api)
    await write(cluster, choice)
    assert await write(cluster, choice, back=True) is Answer.DONE
    assert held(api) == (None, [], [])
    assert await write(cluster, choice) is Answer.REFUSED


@pytest.mark.parametrize(
    ("allocation", "users", "left"),
    [(WRITTEN, [USER, OTHER], ["q"]), (ELSEWHERE, [USER], ["p"]), (WRITTEN, [OTHER], ["q"])],
)
async def test_what_others_use_is_kept(cluster: KubeCluster, api: FakeApi, allocation, users, left):
    choice = claim(api, allocation=allocation, reservedFor=users)
    assert await write(cluster, choice, back=True) is Answer.DONE
    assert held(api)[0] is not None
    assert held(api)[1] == left


async def test_a_claim_that_is_gone_is_given_back(cluster: KubeCluster, api: FakeApi):
    choice = claim(api)
    api.delete("resourceclaims", "c")
    assert await write(cluster, choice) is Answer.GONE
    assert await write(cluster, choice, back=True) is Answer.DONE
