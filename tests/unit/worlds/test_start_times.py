"""Start times of pods, read from manifests."""

import json
from pathlib import Path
from typing import Any

import pytest

from shared.kubernetes.objects.errors import WorldError
from shared.model.columns import pack
from shared.model.world import World
from shared.worlds.manifests import manifests_world
from tests.unit.worlds.manifests import NODE, pod


def read(folder: Path, *objects: Any) -> World:
    path = folder / "all.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return manifests_world([path])


def test_a_start_time_is_read_of_a_pod_with_a_node(tmp_path):
    status = {"status": {"startTime": "2026-01-02T03:04:05Z"}}
    pods = [pod(name, nodeName="n1") for name in ("x", "y")]
    found = read(tmp_path, NODE, pods[0] | status, pods[1], pod("z") | status).arrivals
    starts = {one.pods.names: one.starts_ms for one in found}
    assert starts == {"x\ny": pack([1_767_323_045_000, 0]), "z": b""}


def test_an_unreadable_time_is_named(tmp_path):
    wrong = pod("x", nodeName="n1") | {"status": {"startTime": "soon"}}
    with pytest.raises(WorldError, match=r"status\.startTime: 'soon' is not a time such as"):
        read(tmp_path, NODE, wrong)
