"""Volumes bound before their pods: written at the revision that was read, whatever others write."""

from typing import Any

import pytest
from aiohttp import web

from shared.kubernetes.cluster import KubeCluster
from shared.model.api_outcome import Answer
from shared.model.volumes import Choice
from shared.ports.cluster import VolumeRequest
from tests.unit.kubernetes.fake_api import FakeApi

STATIC = Choice("default", "c", "uid-c", "v", "uid-v")
MADE = Choice("default", "c", "uid-c")
REF = {"namespace": "default", "name": "c"}
NODE_NOTE = "volume.kubernetes.io/selected-node"


async def bind(cluster: KubeCluster, choice: Choice, node: str = "node-0") -> Answer:
    (answer,) = await cluster.bind_volumes([VolumeRequest(choice, node)])
    return answer


def volume(api: FakeApi, **spec: Any) -> dict[str, Any]:
    return api.put("persistentvolumes", "v", spec=spec)


async def test_a_volume_gets_its_claim_once(cluster: KubeCluster, api: FakeApi):
    volume(api, storageClassName="s")
    assert await bind(cluster, STATIC) is Answer.DONE
    written = api.objects["persistentvolumes"]["v"]
    kind = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    assert written["spec"] == {"storageClassName": "s", "claimRef": kind | REF | {"uid": "uid-c"}}
    assert written["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    revision = api.revision
    assert await bind(cluster, STATIC) is Answer.DONE
    assert api.revision == revision


@pytest.mark.parametrize(
    ("ref", "answer"),
    [
        (REF | {"uid": "uid-other"}, Answer.REFUSED),
        (REF | {"name": "d"}, Answer.REFUSED),
        (REF, Answer.DONE),
    ],
)
async def test_a_volume_of_another_claim_is_left_alone(
    cluster: KubeCluster, api: FakeApi, ref: dict[str, str], answer: Answer
):
    volume(api, claimRef=ref)
    assert await bind(cluster, STATIC) is answer
    assert not api.objects["persistentvolumes"]["v"]["metadata"].get("annotations")


async def test_a_claim_gets_its_node_once(cluster: KubeCluster, api: FakeApi):
    api.put("persistentvolumeclaims", "c")
    assert await bind(cluster, MADE) is Answer.DONE
    notes = api.objects["persistentvolumeclaims"]["c"]["metadata"]["annotations"]
    assert notes == {NODE_NOTE: "node-0"}
    assert await bind(cluster, MADE) is Answer.DONE
    assert await bind(cluster, MADE, "node-1") is Answer.REFUSED


async def test_an_object_with_another_uid_counts_as_gone(cluster: KubeCluster, api: FakeApi):
    assert await bind(cluster, STATIC) is Answer.GONE
    api.put("persistentvolumes", "v", metadata={"uid": "uid-new"})
    api.put("persistentvolumeclaims", "c", metadata={"uid": "uid-new"})
    assert await bind(cluster, STATIC) is Answer.GONE
    assert await bind(cluster, MADE) is Answer.GONE


async def test_an_object_that_changed_meanwhile_is_tried_later(cluster: KubeCluster, api: FakeApi):
    volume(api)

    async def first(request: web.Request) -> None:
        volume(api, claimRef=REF | {"name": "d"})

    api.faults.append(("PATCH", first))
    assert await bind(cluster, STATIC) is Answer.BUSY
    assert await bind(cluster, STATIC) is Answer.REFUSED


@pytest.mark.parametrize(("code", "answer"), [(403, Answer.REFUSED), (500, Answer.UNKNOWN)])
async def test_errors_of_the_server(cluster: KubeCluster, api: FakeApi, code, answer):
    volume(api)
    for method in ("GET /api/v1/persistentvolumes/", "PATCH"):
        api.fails(method, code, "no")
        assert await bind(cluster, STATIC) is answer
