"""The examples of Job, JobSet and LeaderWorkerSet, with pods as their controllers make them: each
group starts whole or waits.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.model.columns import split
from shared.model.world import World
from shared.worlds.manifests import manifests_world
from tests.scenarios.scene import Scene, node, play
from tests.support.workload_pods import job_with_group, jobset_pods, lws_with_groups

EXAMPLES = Path(__file__).parents[2] / "examples" / "workloads"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / name).read_text(encoding="utf-8")))


def job() -> list[dict[str, Any]]:
    (made,) = documents("job.yaml")
    return job_with_group(made)


def jobset() -> list[dict[str, Any]]:
    group, made = documents("jobset.yaml")
    return [group, *jobset_pods(made)]


def leader_worker_set() -> list[dict[str, Any]]:
    (made,) = documents("leader-worker-set.yaml")
    return lws_with_groups(made)


def world_of(objects: list[dict[str, Any]], folder: Path) -> World:
    path = folder / "all.yaml"
    path.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    cluster = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "64", "memory": "64Gi"}},
    }
    path.write_text(yaml.safe_dump_all([cluster, *objects]), encoding="utf-8")
    return manifests_world([path])


@pytest.mark.parametrize(
    ("objects", "pods", "room", "running"),
    [
        (job(), 4, 4, 4),
        (job(), 4, 3, 0),
        (jobset(), 5, 5, 5),
        (jobset(), 5, 4, 0),
        (leader_worker_set(), 6, 6, 6),
        (leader_worker_set(), 6, 5, 3),
    ],
    ids=["job", "job-waits", "jobset", "jobset-waits", "lws", "one-group-of-lws"],
)
def test_groups_start_whole_or_wait(objects, pods, room, running, tmp_path):
    world = world_of(objects, tmp_path)
    assert all(one.pods.gang for one in world.arrivals)

    async def story(scene: Scene):
        scene.cluster.set_gangs(world.gangs)
        for arrival in world.arrivals:
            scene.cluster.create(arrival)
        await scene.settle()
        found = [pod.node for pod in scene.cluster.pods.values()]
        assert (len(found), sum(map(bool, found))) == (pods, running)

    play(story, *(node(f"n{number}", 1_000) for number in range(room)))


def test_each_group_of_a_leader_worker_set_is_a_gang(tmp_path):
    world = world_of(leader_worker_set(), tmp_path)
    assert {gang.key: gang.min_count for gang in world.gangs} == {
        "default/serve-0-dd6699c7c@volcano": 3,
        "default/serve-1-dd6699c7c@volcano": 3,
    }


def test_the_group_of_a_jobset_has_all_its_pods(tmp_path):
    world = world_of(jobset(), tmp_path)
    (gang,) = world.gangs
    names = [name for one in world.arrivals for name in split(one.pods.names)]
    assert (gang.key, gang.min_count) == ("default/pretrain@coscheduling", len(names))
