"""Resource claims at the API server: written before the bind to the version that was known, and
given back so that no older write can land.
"""

from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from shared.kubernetes.client.protobuf import MAGIC
from shared.kubernetes.cluster import KubeCluster
from shared.model.api_outcome import Answer
from shared.model.claims import Allocation, ClaimChoice, DeviceResult
from shared.ports.cluster import ClaimsAnswer, ClaimsRequest, PodRef
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
    """Write, or give back; and at the claim's present version if it is not that of the choice."""
    (found,) = await cluster.write_claims([ClaimsRequest(POD, (choice,), back)])
    if found.answer is Answer.STALE:
        (revision,) = found.revisions
        return await write(cluster, replace(choice, revision=revision), back=back)
    return found.answer


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


async def test_pods_that_share_a_claim_write_it_one_after_the_other(
    cluster: KubeCluster, api: FakeApi
):
    choice, members = claim(api), "abcdefgh"
    pods = [PodRef(f"uid-{name}", "default", name) for name in members]
    found = await cluster.write_claims([ClaimsRequest(pod, (choice,)) for pod in pods])
    assert {one.answer for one in found} == {Answer.DONE}
    results, users, _finalizers = held(api)
    assert (results, sorted(users)) == ([RESULT], list(members))


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


async def test_the_answer_has_the_version_that_shows_the_outcome(
    cluster: KubeCluster, api: FakeApi
):
    choice = claim(api)
    for back in (False, True):
        known = replace(choice, revision=api.revision)
        (found,) = await cluster.write_claims([ClaimsRequest(POD, (known,), back)])
        assert found == ClaimsAnswer(Answer.DONE, (api.revision,))


async def test_what_comes_late_undoes_nothing(cluster: KubeCluster, api: FakeApi):
    """A process that was stopped gives back what a later attempt of the pod has written."""
    late = claim(api)
    assert await write(cluster, late, back=True) is Answer.DONE
    assert await write(cluster, replace(late, revision=api.revision)) is Answer.DONE
    (found,) = await cluster.write_claims([ClaimsRequest(POD, (late,), gives_back=True)])
    assert found == ClaimsAnswer(Answer.STALE, (api.revision,))
    assert held(api) == ([RESULT], ["p"], [FINALIZER])


async def test_an_answer_that_cannot_be_read_is_unknown(cluster: KubeCluster, api: FakeApi):
    choice = claim(api)

    async def damaged(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=MAGIC + b"\xff")

    api.faults.append(("GET", damaged))
    assert await write(cluster, choice) is Answer.UNKNOWN


async def test_a_claim_that_is_gone_is_given_back(cluster: KubeCluster, api: FakeApi):
    choice = claim(api)
    api.delete("resourceclaims", "c")
    assert await write(cluster, choice) is Answer.GONE
    assert await write(cluster, choice, back=True) is Answer.DONE
