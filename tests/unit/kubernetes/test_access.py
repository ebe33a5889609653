"""Permissions: missing ones are named, and a server too busy to answer is asked again, not
believed.
"""

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from shared.kubernetes.client import access
from shared.kubernetes.client.access import GROUPS, NEEDED, REVIEWS, missing_permissions
from shared.kubernetes.client.client import ApiError
from shared.kubernetes.client.discovery import POD_GROUPS, WORKLOADS
from shared.kubernetes.cluster import KubeCluster
from tests.unit.kubernetes.fake_api import FakeApi, status


def asked_of(*services: str) -> int:
    """Return the number of questions for these services, of a server whose groups are parts of
    workloads.
    """
    needed = set(chain.from_iterable(NEEDED[one] for one in services))
    of_groups = (POD_GROUPS, "jobs", "hypernodes", "compositepodgroups")
    return sum(one.resource not in of_groups for one in needed)


ASKED = asked_of(*NEEDED)
RBAC = Path(__file__).parents[3] / "deploy" / "rbac.yaml"


async def review(request: web.Request) -> web.Response:
    """Answer a review: everything is allowed except binds."""
    asked = json.loads(await request.read())["spec"]["resourceAttributes"]
    is_bind = (asked["resource"], asked["subresource"]) == ("pods", "binding")
    return web.json_response({"status": {"allowed": not is_bind}}, status=201)


def answers(code: int) -> Callable:
    async def answer(_request: web.Request) -> web.Response:
        return status(code, "not now")

    return answer


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(access, "BUSY_S", 0.001)


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_busy_server_is_asked_again(cluster: KubeCluster, api: FakeApi, code: int):
    await cluster.open()
    # More than once for each question, whichever comes first.
    api.faults.extend([(REVIEWS, answers(code))] * (2 * ASKED))
    api.faults.extend([(REVIEWS, review)] * ASKED)
    assert await missing_permissions(cluster.client) == ["create pods/binding"]
    assert not api.faults


async def test_a_server_that_stays_busy_is_reported(cluster: KubeCluster, api: FakeApi):
    await cluster.open()
    api.faults.extend([(REVIEWS, answers(429))] * (access.TRIES * ASKED))
    with pytest.raises(ApiError, match="429: not now"):
        await missing_permissions(cluster.client)


def granted(text: str) -> set[str]:
    """Return what the cluster role in a file allows, in the words of permissions."""
    (role,) = [one for one in yaml.safe_load_all(text) if one["kind"] == "ClusterRole"]
    return {
        f"{verb} {resource}{'.' + group if group else ''}"
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(groups_as: str, *services: str) -> set[str]:
    return {
        str(one._replace(resource=groups_as) if one.resource == GROUPS else one)
        for service in services or NEEDED
        for one in NEEDED[service]
    }


def test_the_role_that_is_handed_out_is_what_is_asked_for():
    text = RBAC.read_text(encoding="utf-8")
    assert granted(text) == asked(WORKLOADS) | asked(POD_GROUPS)


def test_the_role_of_the_extender_reads_and_binds():
    text = RBAC.with_name("rbac-extender.yaml").read_text(encoding="utf-8")
    reads = asked(WORKLOADS, "extender") | asked(POD_GROUPS, "extender")
    assert granted(text) == reads | {"create pods/binding"}


async def test_without_the_review_permission_requests_are_tried(cluster: KubeCluster, api: FakeApi):
    await cluster.open()
    api.faults.extend([(REVIEWS, answers(403))] * ASKED)
    assert await missing_permissions(cluster.client) == []


async def test_a_service_is_asked_about_its_own_permissions_only(
    cluster: KubeCluster, api: FakeApi
):
    await cluster.open()
    api.faults.extend([(REVIEWS, review)] * asked_of("ingest"))
    assert await missing_permissions(cluster.client, services=["ingest"]) == []
    assert not api.faults
    api.faults.extend([(REVIEWS, review)] * asked_of("binding"))
    assert await missing_permissions(cluster.client, services=["binding"]) == [
        "create pods/binding"
    ]
