"""HTTP extenders in a whole mesh. Every pod goes where `muster score` places it with the extenders'
answers; extenders may be broken, slow or bind pods; a replay asks no extender.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from muster.cli.run_directory import HISTORY
from muster.explain.scoring import score_case
from shared.simulated.history import read_history
from tests.e2e.console import Ran, muster
from tests.parity.oracle.extender_server import (
    ACCUSES,
    BABBLES,
    BREAKS,
    FAILS,
    NOBODY,
    PLAIN,
    SLEEPS,
    ExtenderServer,
)
from tests.support.builders import make_node, make_pod

pytestmark = pytest.mark.slow

NODES: list[dict[str, Any]] = [
    make_node(f"n{number}").capacity(cpu=f"{number}", memory="8Gi").obj() for number in range(2, 8)
]


@pytest.fixture
def extender():
    server = ExtenderServer()
    yield server
    server.close()


def pod(name: str, node: str = "", **more: Any) -> dict[str, Any]:
    requests = {"cpu": "900m", "memory": "1Gi", **more}
    return make_pod(name).metadata(namespace="default").requests(requests).node(node).obj()


def config_of(url: str, manner: str, **more: Any) -> dict[str, Any]:
    one = {"urlPrefix": f"{url}/7-{manner}", "filterVerb": "filter", "httpTimeout": "60s", **more}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [one],
    }


def binder_of(url: str, manner: str, **more: Any) -> dict[str, Any]:
    """Return the configuration of an extender that only binds."""
    return config_of(url, manner, filterVerb="", bindVerb="bind", **more)


def play(folder: Path, config: dict[str, Any], *pods: dict[str, Any], placements: int = 1) -> Ran:
    (folder / "world.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [*NODES, *pods]})
    )
    (folder / "config.json").write_text(json.dumps(config))
    words = ("run", folder / "world.json", "--config", folder / "config.json", "-o", "json")
    sooner = ("--set", "queueing.confirm_ms=300")  # messages are true sooner
    return muster(*words, *sooner, "--run-dir", folder / "run", "--placements", str(placements))


def binds(folder: Path) -> list[tuple[str, str]]:
    """Return (pod, node) of the binds, in order."""
    happened = read_history(folder / "run" / HISTORY)
    return [(one.uid.removeprefix("default."), one.node) for one in happened if one.kind == "bind"]


@pytest.mark.parametrize("knows_nodes", [True, False])
def test_pods_go_where_muster_score_has_them_and_a_replay_asks_no_extender(
    tmp_path, extender, knows_nodes
):
    scores = {"prioritizeVerb": "prioritize", "weight": 2, "nodeCacheCapable": knows_nodes}
    config = config_of(extender.url, PLAIN, **scores)
    ran = play(tmp_path, config, *(pod(f"p{number}") for number in range(6)))
    assert ran.code == 0, ran
    found = binds(tmp_path)
    assert len(found) == 6
    assert len(extender.asked) == 12, "twice for every pod"
    there: list[dict[str, Any]] = []
    for name, node in found:
        said = score_case({"objects": [*NODES, *there], "pods": [pod(name)], "config": config})
        assert node in said["pods"][0]["best"], name
        there.append(pod(name, node))
    story = muster("story", "pod/p0", tmp_path / "run").out
    assert "extenders asked about 6 nodes for default/p0" in story
    assert "extenders leave" in story
    extender.asked.clear()
    assert muster("replay", tmp_path / "run").code == 0
    assert extender.asked == []


def test_refused_pods_wait_with_the_extenders_message(tmp_path, extender):
    ran = play(tmp_path, config_of(extender.url, NOBODY, nodeCacheCapable=True), pod("p"))
    assert ran.code == 0, ran
    assert (ran.json()["bound"], len(extender.asked)) == (0, 1)


def test_pods_wait_for_a_broken_extender(tmp_path, extender):
    ran = play(tmp_path, config_of(extender.url, BREAKS, nodeCacheCapable=True), pod("p"))
    assert ran.code == 0, ran
    assert ran.json()["bound"] == 0
    assert "code 500" in ran.out


@pytest.mark.parametrize("manner", [BREAKS, SLEEPS])
def test_an_ignorable_extender_that_fails_blocks_no_pod(tmp_path, extender, manner):
    more = {"ignorable": True, "httpTimeout": "100ms", "nodeCacheCapable": True}
    ran = play(tmp_path, config_of(extender.url, manner, **more), pod("p"))
    assert ran.code == 0, ran
    assert ran.json()["bound"] == 1


def test_unmanaged_pods_are_placed_without_the_extender(tmp_path, extender):
    managed = [{"name": "example.com/gadget", "ignoredByScheduler": True}]
    config = config_of(extender.url, PLAIN, managedResources=managed, nodeCacheCapable=True)
    ran = play(tmp_path, config, pod("p"), pod("q", **{"example.com/gadget": "1"}))
    assert ran.code == 0, ran
    assert (ran.json()["bound"], len(extender.asked)) == (2, 1)


def test_each_of_several_shards_asks_about_its_own_nodes(tmp_path, extender):
    """A pod goes to the best of these. At first all nodes have room, so the first questions show
    the nodes of each shard.
    """
    scores = {"prioritizeVerb": "prioritize", "weight": 2, "nodeCacheCapable": True}
    config = config_of(extender.url, PLAIN, **scores)
    ran = play(tmp_path, config, *(pod(f"p{number}") for number in range(6)), placements=3)
    assert ran.code == 0, ran
    asked = [set(names) for path, names in extender.asked if path.endswith("filter")]
    shards = [one for one in asked if not any(one < other for other in asked)]
    found = binds(tmp_path)
    assert len(found) == 6
    there: list[dict[str, Any]] = []
    for name, node in found:
        (shard,) = {tuple(sorted(one)) for one in shards if node in one}
        own = [one for one in NODES if one["metadata"]["name"] in shard]
        own += [one for one in there if one["spec"]["nodeName"] in shard]
        said = score_case({"objects": own, "pods": [pod(name)], "config": config})
        assert node in said["pods"][0]["best"], name
        there.append(pod(name, node))
    extender.asked.clear()
    assert muster("replay", tmp_path / "run").code == 0
    assert extender.asked == []


@pytest.mark.parametrize(("manner", "told"), [(NOBODY, " parked: "), (BREAKS, " in backoff: ")])
def test_a_pod_that_several_shards_refuse_has_one_shards_message(tmp_path, extender, manner, told):
    """An error is no refusal: the pod is tried again after its backoff."""
    words = []
    for placements in (1, 3):
        (folder := tmp_path / str(placements)).mkdir()
        config = config_of(extender.url, manner, nodeCacheCapable=True)
        ran = play(folder, config, pod("p"), placements=placements)
        assert ran.code == 0, ran
        assert ran.json()["bound"] == 0
        story = muster("story", "pod/p", folder / "run").out.splitlines()
        words.append(next(line for line in story if told in line).split(told)[1])
    assert words[0] == words[1]


def gang(size: int) -> list[dict[str, Any]]:
    """Return the members of a gang that needs all of them."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"podGroups": [{"name": "all", "policy": {"gang": {"minCount": size}}}]},
    }
    members = [pod(f"m{number}") for number in range(size)]
    for one in members:
        one["spec"]["workloadRef"] = {"name": "train", "podGroup": "all"}
    return [group, *members]


@pytest.mark.parametrize("placements", [1, 3])
def test_a_gang_goes_where_extenders_allow(tmp_path, extender, placements):
    config = config_of(extender.url, PLAIN, nodeCacheCapable=True)
    ran = play(tmp_path, config, *gang(5), placements=placements)
    assert ran.code == 0, ran
    assert (ran.json()["bound"], ran.json()["gangs_committed"]) == (5, 1)
    for name, node in binds(tmp_path):
        said = score_case({"objects": NODES, "pods": [pod(name)], "config": config})
        assert said["pods"][0]["nodes"][node]["feasible"], (name, node)
    extender.asked.clear()
    assert muster("replay", tmp_path / "run").code == 0
    assert extender.asked == []


@pytest.mark.parametrize("placements", [1, 3])
@pytest.mark.parametrize(
    ("manner", "words"),
    [(NOBODY, "6 node(s) that extenders do not leave"), (BREAKS, "code 500")],
)
def test_a_gang_that_extenders_refuse_waits_with_their_message(
    tmp_path, extender, manner, words, placements
):
    config = config_of(extender.url, manner, nodeCacheCapable=True)
    ran = play(tmp_path, config, *gang(2), placements=placements)
    assert ran.code == 0, ran
    assert ran.json()["bound"] == 0
    story = muster("story", "pod/m0", tmp_path / "run").out
    waits = "default/m0 parked: gang default/train/all: 0 of 2 members have a node; 2 more: "
    assert waits in story
    assert words in story


@pytest.mark.parametrize("placements", [1, 2])
def test_a_binding_extender_binds_every_pod_and_a_replay_asks_no_extender(
    tmp_path, extender, placements
):
    config = binder_of(extender.url, PLAIN)
    pods = [pod(f"p{number}") for number in range(6)]
    ran = play(tmp_path, config, *pods, placements=placements)
    assert ran.code == 0, ran
    found = binds(tmp_path)
    assert len(found) == 6
    wanted = [("/7-plain/bind", ("default", name, node)) for name, node in found]
    assert sorted(extender.asked) == sorted(wanted)
    extender.asked.clear()
    assert muster("replay", tmp_path / "run").code == 0
    assert extender.asked == []


@pytest.mark.parametrize(
    ("manner", "words"),
    [
        (FAILS, "it does not work today"),
        (BREAKS, "failed bind with extender at URL"),
        (BABBLES, "is not JSON"),
        (SLEEPS, "no answer in 100 ms"),
    ],
)
def test_pods_that_a_binder_refuses_wait_with_its_message(tmp_path, extender, manner, words):
    limit = {"httpTimeout": "100ms"} if manner == SLEEPS else {}
    ran = play(tmp_path, binder_of(extender.url, manner, **limit), pod("p"))
    assert ran.code == 0, ran
    assert ran.json()["bound"] == 0
    assert words in ran.out
    assert words in muster("story", "pod/p", tmp_path / "run").out


def test_an_ignorable_binder_that_fails_blocks_no_pod(tmp_path, extender):
    ran = play(tmp_path, binder_of(extender.url, FAILS, ignorable=True), pod("p"))
    assert ran.code == 0, ran
    assert (ran.json()["bound"], len(extender.asked)) == (1, 1)


def crowd() -> list[dict[str, Any]]:
    """Return a world whose nodes are full of pods of four priorities."""
    levels = [("high", 1_000), *((f"level-{number}", number) for number in range(4))]
    found: list[dict[str, Any]] = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in levels
    ]
    for node in NODES:
        cpus = int(node["status"]["allocatable"]["cpu"])
        for number in range(cpus):
            low = pod(f"{node['metadata']['name']}-{number}", node["metadata"]["name"], cpu="1")
            low["spec"]["priorityClassName"] = f"level-{(cpus + 3 * number) % 4}"
            found.append(low)
    return found


def preempter_of(url: str, salt: str, manner: str = PLAIN, **more: Any) -> dict[str, Any]:
    config = config_of(url, manner, filterVerb="", preemptVerb="preempt", **more)
    config["extenders"][0]["urlPrefix"] = f"{url}/{salt}-{manner}"
    return config


def high(name: str) -> dict[str, Any]:
    found = pod(name)
    found["spec"]["priorityClassName"] = "high"
    return found


@pytest.mark.parametrize("placements", [1, 3])
@pytest.mark.parametrize(("salt", "knows_nodes"), [("0", True), ("1", False), ("4", True)])
def test_victims_are_those_of_muster_score_and_a_replay_asks_no_extender(
    tmp_path, extender, salt, knows_nodes, placements
):
    config = preempter_of(extender.url, salt, nodeCacheCapable=knows_nodes)
    crowded = crowd()
    case: dict[str, Any] = {"objects": [*NODES, *crowded], "pods": [high("high")], "config": config}
    case["preempt"] = True
    wanted = score_case(case)["pods"][0]["preemption"]
    asked = list(extender.asked)
    assert len(asked) == 1
    extender.asked.clear()
    ran = play(tmp_path, config, *crowded, high("high"), placements=placements)
    assert ran.code == 0, ran
    assert extender.asked == asked, "the same nodes and victims"
    happened = read_history(tmp_path / "run" / HISTORY)
    gone = [one.uid.replace(".", "/", 1) for one in happened if one.kind == "evict"]
    if placements == 1:
        assert sorted(gone) == sorted(wanted["evicted"])
        assert ("high", wanted["best"]) in binds(tmp_path)
    else:  # of equals the one on the first shard
        level = {
            f"default/{one['metadata']['name']}": one["spec"].get("priorityClassName")
            for one in crowded
            if one["kind"] == "Pod"
        }
        assert [level[name] for name in gone] == [level[name] for name in wanted["evicted"]]
        assert "high" in dict(binds(tmp_path))
    assert "extenders leave" in muster("story", "pod/high", tmp_path / "run").out
    extender.asked.clear()
    assert muster("replay", tmp_path / "run").code == 0
    assert extender.asked == []


@pytest.mark.parametrize(
    ("manner", "words"),
    [
        (NOBODY, "preemption: no candidate node for preemption"),
        (BREAKS, "preemption: failed preempt with extender at URL"),
        (BABBLES, "is not JSON"),
        (ACCUSES, "but the pod is not found on that node"),
        (SLEEPS, "no answer in 100 ms"),
    ],
)
def test_preemptors_whose_victims_extenders_refuse_wait_with_their_message(
    tmp_path, extender, manner, words
):
    limit = {"httpTimeout": "100ms"} if manner == SLEEPS else {}
    ran = play(tmp_path, preempter_of(extender.url, "0", manner, **limit), *crowd(), high("high"))
    assert ran.code == 0, ran
    assert "high" not in dict(binds(tmp_path))
    assert words in muster("story", "pod/high", tmp_path / "run").out
    assert not [one for one in read_history(tmp_path / "run" / HISTORY) if one.kind == "evict"]


def test_an_ignorable_preempt_extender_leaves_the_choice_to_others(tmp_path, extender):
    config = preempter_of(extender.url, "0", BREAKS, ignorable=True)
    ran = play(tmp_path, config, *crowd(), high("high"))
    assert ran.code == 0, ran
    assert "high" in dict(binds(tmp_path))
    assert len(extender.asked) == 1
