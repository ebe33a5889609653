"""The status of Volcano's PodGroups: enqueued for Jobs that are ours, and told of the outcome."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from shared.kubernetes.client.client import Response
from shared.kubernetes.objects.structs import RawGroupOfJob
from shared.kubernetes.writing import volcano_groups
from shared.kubernetes.writing.volcano_groups import VolcanoGroups
from shared.model.api_outcome import Answer
from shared.ports.cluster import GroupCondition

GROUP = "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/g"
JOB = "/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs/j"
REFUSED = GroupCondition("team", "g@volcano", "0/2 nodes are available: 2 Insufficient cpu.")
SCHEDULED = GroupCondition("team", "g@volcano", "")
OWNER = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "name": "j",
    "controller": True,
}


class Server:
    """A Job and its PodGroup: it merges patches into the group. `faults` are answered first."""

    def __init__(self, scheduler: str = "muster", **status: Any) -> None:
        self.job = {"spec": {"schedulerName": scheduler}}
        self.revision = 1
        self.status: dict[str, Any] = status
        self.patches: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.faults: list[Response | Answer] = []

    async def send(
        self, method: str, path: str, body: bytes | None, content_type: str
    ) -> Response | Answer:
        self.asked.append(f"{method} {path}")
        if self.faults:
            return self.faults.pop(0)
        if path == JOB:
            return Response(200, json.dumps(self.job).encode())
        if method == "PATCH":
            assert (path, content_type) == (f"{GROUP}/status", "application/merge-patch+json")
            patch = json.loads(body or b"")
            if patch["metadata"] != {"resourceVersion": str(self.revision)}:
                return Response(409, b'{"message": "the object has been modified"}')
            self.revision += 1
            self.patches.append(patch["status"])
            self.status |= patch["status"]
        metadata = {"resourceVersion": str(self.revision)}
        return Response(200, json.dumps({"metadata": metadata, "status": self.status}).encode())


def raw(phase: str = "", owners: list[dict[str, Any]] | None = None) -> RawGroupOfJob:
    """Return the group as a watch reports it."""
    metadata = {"namespace": "team", "name": "g", "ownerReferences": owners or [OWNER]}
    return msgspec.convert({"metadata": metadata, "status": {"phase": phase}}, RawGroupOfJob)


async def enqueue(server: Server, group: RawGroupOfJob) -> None:
    """Let a group be seen, and wait until nothing waits to be enqueued."""
    groups = VolcanoGroups(server.send, ["muster"])
    groups.seen(group)
    writing = groups._writing
    if writing is not None:
        await asyncio.wait_for(writing, 5)


@pytest.mark.parametrize("phase", ["", "Pending"])
async def test_the_group_of_a_job_of_ours_is_enqueued(phase: str):
    server = Server(phase=phase)
    await enqueue(server, raw(phase))
    assert server.patches == [{"phase": "Inqueue"}]


async def test_groups_of_other_schedulers_jobs_are_left_alone():
    server = Server(scheduler="volcano", phase="Pending")
    await enqueue(server, raw("Pending"))
    assert (server.asked, server.patches) == ([f"GET {JOB}"], [])


@pytest.mark.parametrize(
    "group",
    [
        raw("Inqueue"),
        raw("Running"),
        raw(owners=[OWNER | {"apiVersion": "batch/v1"}]),
        raw(owners=[OWNER | {"controller": False}]),
    ],
)
async def test_nothing_is_asked_about_groups_that_wait_for_nothing(group: RawGroupOfJob):
    server = Server()
    await enqueue(server, group)
    assert server.asked == []


@pytest.mark.parametrize("schedulers", [(), ("",)])
async def test_a_process_that_schedules_no_pods_enqueues_nothing(schedulers: tuple[str, ...]):
    server = Server(scheduler="")
    groups = VolcanoGroups(server.send, schedulers)
    groups.seen(raw())
    await asyncio.sleep(0)
    assert server.asked == []


async def test_a_server_without_an_answer_is_asked_again(monkeypatch):
    monkeypatch.setattr(volcano_groups, "AGAIN_S", 0.0)
    server = Server()
    server.faults = [Answer.UNKNOWN, Response(500, b"{}"), Answer.BUSY]
    await enqueue(server, raw())
    assert server.patches == [{"phase": "Inqueue"}]


async def test_a_missing_permission_is_named_and_not_tried_again(caplog):
    server = Server()
    server.faults = [Response(403, b'{"message": "jobs is forbidden"}')]
    await enqueue(server, raw())
    assert "Volcano's Job team/j was not read: jobs is forbidden" in caplog.text
    assert server.patches == []


async def test_a_scheduled_group_runs_and_keeps_what_others_wrote():
    other = {"type": "Unschedulable", "status": "True", "message": "why"}
    server = Server(phase="Inqueue", running=2, conditions=[other])
    await VolcanoGroups(server.send, []).show(SCHEDULED)
    [patch] = server.patches
    assert sorted(patch) == ["conditions", "phase"]
    assert server.status["phase"] == "Running"
    assert server.status["running"] == 2
    kept, new = server.status["conditions"]
    assert kept == other
    assert new.pop("lastTransitionTime").endswith("Z")
    assert new == {
        "type": "Scheduled",
        "status": "True",
        "reason": "tasks in gang are ready to be scheduled",
        "message": "",
    }


async def test_a_refused_group_says_why_and_keeps_its_phase():
    server = Server(phase="Inqueue")
    groups = VolcanoGroups(server.send, [])
    await groups.show(REFUSED)
    await groups.show(REFUSED)
    assert len(server.patches) == 1
    (new,) = server.status["conditions"]
    assert (new["type"], new["reason"]) == ("Unschedulable", "NotEnoughResources")
    assert new["message"] == REFUSED.message
    assert server.status["phase"] == "Inqueue"


async def test_a_refused_group_without_a_phase_is_pending():
    server = Server()
    await VolcanoGroups(server.send, []).show(REFUSED)
    assert server.status["phase"] == "Pending"


async def test_success_is_not_taken_back():
    server = Server(phase="Running", conditions=[{"type": "Scheduled", "message": ""}])
    groups = VolcanoGroups(server.send, [])
    for group in (SCHEDULED, REFUSED):
        await groups.show(group)
    assert server.patches == []


async def test_a_completed_group_stays_completed():
    server = Server(phase="Completed")
    await VolcanoGroups(server.send, []).show(SCHEDULED)
    assert server.status["phase"] == "Completed"


async def test_a_status_that_another_writer_changed_meanwhile_is_read_again():
    server = Server(phase="Inqueue")
    seen = Response(200, b'{"metadata": {"resourceVersion": "0"}}')
    server.faults = [seen]
    await VolcanoGroups(server.send, []).show(SCHEDULED)
    assert server.asked == [f"GET {GROUP}", f"PATCH {GROUP}/status"] * 2
    assert server.status["phase"] == "Running"
