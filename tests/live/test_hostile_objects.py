"""Whole objects with fields at their API limits: the process never ends, every pod has a condition.

`MUSTER_HOSTILE` says how many objects, `MUSTER_HOSTILE_SEED` which.
"""

import os
import random
from collections import Counter
from typing import Any

import pytest

from tests.e2e.console import muster as command
from tests.live.support.hostile_objects import CLASSES, NODES, PRIORITIES, ZONE, Hostile
from tests.live.support.objects import PODS, Running, node, until
from tests.support.kube_api import KubeApi
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
OBJECTS = int(os.environ.get("MUSTER_HOSTILE", "300"))
FEW = 1_000
SEED = int(os.environ.get("MUSTER_HOSTILE_SEED", "1"))
# Pods that fit on no node are retried at the same time, so many absurd amounts are in flight at
# once.
AGAIN_MS = max(3_000, OBJECTS * 10)
OFTEN = (
    *("--set", f"queueing.unschedulable_max_ms={AGAIN_MS}"),
    *("--set", f"queueing.confirm_ms={AGAIN_MS}"),
)
SNAPSHOT_MS = 1 if OBJECTS <= FEW else 10_000  # of few objects one in every turn
PLAIN_NODES = 3


def all_told(api: KubeApi, pods: list[str]) -> bool:
    """Return whether each of these pods has a condition or is deleted; those are removed."""
    while pods:
        answer = api.get(pods[-1])
        if answer.status == 200 and not is_told(answer.body):
            return False
        pods.pop()
    return True


def is_told(one: dict[str, Any]) -> bool:
    conditions = one["status"].get("conditions", ())
    return bool(one["spec"].get("nodeName")) or any(c["type"] == "PodScheduled" for c in conditions)


def create(api: KubeApi, muster: Running) -> tuple[list[str], Counter[str]]:
    """Create all of them and delete some; return the place of those that stay, and the fate of
    others.
    """
    rng, there = random.Random(SEED), list[str]()
    others: Counter[str] = Counter()
    for number in range(OBJECTS):
        assert muster.process.poll() is None, f"object {number}: {muster.said()[-3000:]}"
        drawn = Hostile(SEED, number)
        answer = api.create(drawn.path, drawn.body)
        if answer.status != 201:
            others[f"{drawn.path.rpartition('/')[2]} {answer.status}"] += 1
            continue
        there.append(f"{drawn.path}/{answer.body['metadata']['name']}")
        if rng.random() < 0.1:
            gone = there.pop(rng.randrange(len(there)))
            api.request("DELETE", f"{gone}?gracePeriodSeconds=0")
            others["deleted"] += 1
    return there, others


def test_absurd_objects_never_end_the_process_and_every_pod_has_a_condition(
    cluster: KubeServers, tmp_path
):
    api = cluster.api
    for name, value in PRIORITIES.items():
        api.create(CLASSES, {"metadata": {"name": name}, "value": value}).ok()
    for number in range(PLAIN_NODES):
        plain = node(f"plain-{number}", cpu=64)
        plain["metadata"]["labels"][ZONE] = "abc"[number]
        api.create(NODES, plain).ok()
    where = ("--kubeconfig", str(cluster.kubeconfig), "--run-dir", str(tmp_path / "run"))
    words = (str(SNAPSHOT_MS), "run", *where, *OFTEN)
    with Running(words, tmp_path / "log", "tests.live.support.frequent_snapshots") as muster:
        there, others = create(api, muster)
        pods = [path for path in there if path.startswith(PODS)]
        until(
            "every pod has a node or a condition",
            lambda: muster.process.poll() is not None or all_told(api, pods),
        )
        assert muster.process.poll() is None, muster.said()[-3000:]
        muster.stop()
    found = api.items(PODS)
    assert all(is_told(one) for one in found)
    bound = sum(bool(one["spec"].get("nodeName")) for one in found)
    print(
        f"{OBJECTS} objects: {len(there)} there, {len(found)} pods, {bound} bound; {dict(others)}"
    )
    assert len(there) > OBJECTS / 3, others
    assert "Traceback" not in muster.said()
    if OBJECTS <= FEW:  # of many it takes longer than all the rest
        replayed = command("replay", tmp_path / "run")
        assert replayed.code == 0, replayed
