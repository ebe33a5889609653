"""The condition of a PodGroup says whether it was scheduled, as kube-scheduler writes it."""

import json
import logging
from typing import Any

import pytest

from shared.kubernetes.client.client import Response
from shared.kubernetes.writing.group_status import show_groups
from shared.model.api_outcome import Answer
from shared.ports.cluster import GroupCondition

GROUPS = "/apis/scheduling.k8s.io/v1beta1/podgroups"
OBJECT = "/apis/scheduling.k8s.io/v1beta1/namespaces/team/podgroups/g"
REFUSED = GroupCondition("team", "g", "0/2 nodes are available: 2 Insufficient cpu.")
SCHEDULED = GroupCondition("team", "g", "")


class Server:
    """One PodGroup: it answers GET, and keeps the patches of its status."""

    def __init__(self, *conditions: dict[str, Any]) -> None:
        metadata = {"uid": "u1", "generation": 3}
        self.group = {"metadata": metadata, "status": {"conditions": list(conditions)}}
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.status = 200

    async def send(
        self, method: str, path: str, body: bytes | None, _content_type: str
    ) -> Response | Answer:
        if method == "PATCH":
            assert body is not None
            self.patches.append((path, json.loads(body)))
        return Response(self.status, json.dumps(self.group).encode())


def condition(**fields: Any) -> dict[str, Any]:
    return {"type": "PodGroupInitiallyScheduled", "message": "", **fields}


async def test_a_group_says_why_it_is_not_scheduled():
    server = Server()
    await show_groups(GROUPS, [REFUSED], server.send)
    [(path, body)] = server.patches
    assert path == f"{OBJECT}/status"
    assert body["metadata"] == {"uid": "u1"}
    [written] = body["status"]["conditions"]
    assert written.pop("lastTransitionTime").endswith("Z")
    assert written == condition(
        status="False", reason="Unschedulable", message=REFUSED.message, observedGeneration=3
    )


async def test_a_group_says_that_its_try_ended_in_an_error():
    server = Server(condition(status="False", reason="Unschedulable", message="full"))
    await show_groups(GROUPS, [GroupCondition("team", "g", "full", is_error=True)], server.send)
    [(_, body)] = server.patches
    [written] = body["status"]["conditions"]
    assert (written["reason"], written["message"]) == ("SchedulerError", "full")


async def test_another_message_keeps_the_time_of_the_transition():
    server = Server(condition(status="False", reason="Unschedulable", message="other"))
    await show_groups(GROUPS, [REFUSED], server.send)
    [(_, body)] = server.patches
    assert "lastTransitionTime" not in body["status"]["conditions"][0]


@pytest.mark.parametrize(
    "old",
    [
        condition(status="True", reason="Scheduled"),
        condition(status="False", reason="Unschedulable", message=REFUSED.message),
    ],
)
async def test_nothing_is_written_that_is_known_or_would_take_success_back(old):
    server = Server(old)
    await show_groups(GROUPS, [REFUSED], server.send)
    assert server.patches == []


async def test_a_scheduled_group_says_so():
    server = Server(condition(status="False", reason="Unschedulable", message="other"))
    await show_groups(GROUPS, [SCHEDULED], server.send)
    [(_, body)] = server.patches
    assert body["status"]["conditions"][0]["status"] == "True"
    assert body["status"]["conditions"][0]["reason"] == "Scheduled"


async def test_1_36_names_the_condition_otherwise():
    server = Server()
    await show_groups(GROUPS.replace("v1beta1", "v1alpha2"), [SCHEDULED], server.send)
    [(_, body)] = server.patches
    assert body["status"]["conditions"][0]["type"] == "PodGroupScheduled"


async def test_a_group_that_is_gone_is_left_alone():
    server = Server()
    server.status = 404
    await show_groups(GROUPS, [SCHEDULED], server.send)
    assert server.patches == []


async def test_a_missing_permission_is_named(caplog):
    server = Server()
    server.status = 403
    with caplog.at_level(logging.WARNING, logger="muster.kube"):
        await show_groups(GROUPS, [SCHEDULED], server.send)
    assert "the condition of PodGroup team/g was not written" in caplog.text
    assert server.patches == []
