"""Small floods through the whole mesh: what comes, goes, waits for room, and has volumes."""

import asyncio
import json
from typing import Any

from muster.cli.options.services import of_this_version
from muster.flood.book import Book
from muster.flood.plan import plan_of
from muster.flood.player import Player
from muster.flood.read import read_workload
from muster.flood.targets.in_process import in_process
from shared.simulated.config import SimConfig

BARRIER = {"opcode": "barrier"}
NODE = {"opcode": "createNodes", "count": 1}
CONFIG = of_this_version({"ingest": {"default_spread": True, "volumes": True}})


def needs(cpu: str, **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}}
    return {"spec": {"containers": [{"name": "c", "resources": resources}], **spec}}


def played(tmp_path, *steps, limit_s: float = 30, **templates) -> tuple[bool, Book]:
    file = tmp_path / "w.json"
    file.write_text(json.dumps({"podTemplates": templates, "steps": steps}))

    async def play() -> tuple[bool, Book]:
        plan = plan_of(read_workload(file))
        async with in_process(plan, tmp_path, 1, CONFIG, SimConfig(seed=1)) as target:
            player = Player(plan, target, limit_s, lambda _progress: None)
            return await player.play(), player.book

    return asyncio.run(play())


def pods(count: int, template: str, **others: Any) -> dict[str, Any]:
    return {"opcode": "createPods", "count": count, "template": template, **others}


def test_pods_wait_until_others_have_finished(tmp_path):
    steps = NODE, pods(2, "half", runsFor="100ms"), BARRIER, pods(2, "half"), BARRIER
    is_complete, book = played(tmp_path, *steps, half=needs("2"))
    assert is_complete
    assert (book.bound, book.is_gone.tolist()) == (4, [True, True, False, False])
    assert book.bound_ms[2] - book.due_ms[2] >= 80


def test_nodes_come_with_time_and_fail_with_their_pods(tmp_path):
    template = {"status": {"allocatable": {"cpu": "9", "pods": "9"}}}
    big = {"opcode": "createNodes", "count": 1, "prefix": "big", "template": template}
    wait, longer = ({"opcode": "sleep", "duration": text} for text in ("100ms", "2s"))
    steps = NODE, pods(1, "large"), wait, {**big, "runsFor": "1s"}, BARRIER, longer, BARRIER
    is_complete, book = played(tmp_path, *steps, large=needs("9"))
    assert is_complete
    assert (book.bound, book.is_gone.tolist()) == (1, [True])
    assert book.bound_ms[0] >= 100


def test_a_node_that_is_still_to_come_cannot_fail(tmp_path):
    late = {**NODE, "arrival": {"process": "burst", "size": 1, "every": "1s"}, "count": 2}
    fail = {"opcode": "deleteNodes", "count": 2}
    is_complete, book = played(tmp_path, late, fail, pods(1, "plain"), BARRIER)
    assert is_complete
    assert book.bound == 1


def test_pods_with_claims_go_where_drivers_have_room(tmp_path):
    def any_of(count: int, kind: str, version: str = "v1", **fields: Any) -> dict[str, Any]:
        name = {"CSINode": "node", "PersistentVolume": "pv"}.get(kind, "pvc") + "-{{.Index}}"
        metadata = {"name": name, **fields.pop("metadata", {})}
        template = {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
        return {"opcode": "createAny", "count": count, "template": template}

    driver = {"name": "csi", "nodeID": "n", "allocatable": {"count": 2}}
    size, modes = {"storage": "1Gi"}, {"accessModes": ["ReadOnlyMany"]}
    uid = "PersistentVolumeClaim.default.pvc-{{.Index}}"
    ref = {"namespace": "default", "name": "pvc-{{.Index}}", "uid": uid}
    disk = {"csi": {"driver": "csi", "volumeHandle": "{{.Index}}"}, "claimRef": ref}
    is_bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = {**modes, "resources": {"requests": size}, "volumeName": "pv-{{.Index}}"}
    bound = {"status": {"phase": "Bound"}}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "pvc-{{.Index}}"}}]
    steps = (
        {**NODE, "count": 3},
        any_of(3, "CSINode", "storage.k8s.io/v1", spec={"drivers": [driver]}),
        any_of(7, "PersistentVolume", spec={"capacity": size, **modes, **disk}, **bound),
        any_of(7, "PersistentVolumeClaim", metadata=is_bound, spec=claim, **bound),
        pods(7, "claims"),
        BARRIER,
    )
    is_complete, book = played(tmp_path, *steps, limit_s=1, claims=needs("1m", volumes=volumes))
    assert not is_complete
    assert (book.bound, book.awaited) == (6, 1)
