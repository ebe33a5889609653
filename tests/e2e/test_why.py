"""`muster why pod` on a finished run: the state of each pod, and the record that decided it."""

import re

import pytest

from tests.e2e.console import Ran, complaint, muster, run_of_examples

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("recorded-run")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_of_examples(tmp_path_factory.mktemp("why") / "run")


@pytest.fixture
def ask(run):
    def why(name: str, *more: str) -> Ran:
        return muster("why", "pod", f"default/{name}", run, *more)

    return why


def test_a_bound_pod_is_on_its_node_by_a_record_of_binding(ask):
    found = ask("web-1", "-o", "json").json()
    assert found["state"] == "bound"
    assert found["node"]
    assert found["decided"]["journal"] == "binding/0"
    assert found["decided"]["text"] == f"bound default/web-1 on {found['node']}"
    (own,) = found["nodes"]
    assert (own["node"], own["score"]) == (found["node"], found["pick"]["score"])
    assert sum(one["score"] for one in own["scores"]) == own["score"]
    assert (found["pick"]["feasible"], found["pick"]["nodes"]) == (12, 18)


def test_a_record_has_the_same_time_as_in_the_story(ask, run):
    decided = ask("web-1").out.splitlines()[-1]
    found = re.match(r"decided +(\S+) at (\d+), .* UTC \((.*)\): (.*)", decided)
    assert found is not None
    journal, position, time, text = found.groups()
    story = muster("story", "pod/web-1", run).out.splitlines()
    assert f"{time}  {journal} {position}  {text}" in story


def test_a_pod_that_does_not_fit_has_reasons_nodes_and_shards(ask):
    found = ask("impossible", "-o", "json").json()
    assert found["state"] == "unschedulable"
    assert found["message"].startswith("0/18 nodes are available: 18 node(s) didn't match Pod's")
    reason = {"reason": "node(s) didn't match Pod's node affinity/selector", "nodes": 18}
    assert found["reasons"] == [reason]
    assert found["decided"]["journal"] == "queueing/0"
    assert found["decided"]["text"].endswith(found["message"])
    (look,) = found["confirmed"]
    assert look["journal"] == "placement/0"
    assert "refused: 0/18 nodes" in look["text"]
    assert look["time"] >= found["decided"]["time"]  # they look again every two seconds
    assert found["read_to"]["queueing/0"] > found["decided"]["position"]


def test_why_not_that_node(ask):
    lines = ask("impossible", "--node", "gpu-a1").out.splitlines()
    node = "  gpu-a1: refused by NodeAffinity: node(s) didn't match Pod's node affinity/selector"
    assert lines[0] == "pod default/impossible: unschedulable"
    assert node in lines
    assert "no node of this name" in complaint(ask("impossible", "--node", "gpu-z9"), 2)
    bound = ask("web-1", "--node", "gpu-a1").out.splitlines()
    assert "  gpu-a1: refused by TaintToleration: node(s) had untolerated taint(s)" in bound


def test_a_gangs_member_waits_with_its_gang(ask):
    found = ask("train-everything-0", "-o", "json").json()
    assert (found["state"], found["gang"]) == (
        "waiting for its gang",
        "default/training/everything",
    )
    timed_out = "gang default/training/everything timed out after 6 s: "
    assert found["message"].startswith(f"{timed_out}0/18 nodes are available: ")
    assert found["decided"]["text"].endswith(found["message"])


def test_an_evicted_pod_left_for_another(ask, run):
    story = muster("story", "pod/latecomer", run, "-o", "json").out
    victim = re.search(r"default/([\w-]+) to be evicted from", story)
    assert victim
    found = ask(victim[1], "-o", "json").json()
    assert (found["state"], found["evicted"]["by"]) == ("evicted", "default/latecomer")
    assert found["end_time"] is not None
    line = ask(victim[1]).out.splitlines()[0]
    assert line.startswith(
        f"pod default/{victim[1]}: evicted from {found['evicted']['node']} at 20"
    )
    assert " UTC for default/latecomer (priority " in line


def test_gangs_and_nodes_are_explained(run):
    gang = muster("why", "gang/everything", run, "-o", "json").json()
    assert (gang["gang"], gang["min_count"], gang["missing"]) == (
        "default/training/everything",
        12,
        12,
    )
    assert len(gang["members"]) == 12
    lines = muster("why", "gang", "default/training/everything", run).out.splitlines()
    assert "  0 of 12 members bound, minCount 12: 12 more needed" in lines
    assert any(line.startswith("next       it is tried again at 20") for line in lines)
    node = muster("why", "node/gpu-a1", run, "-o", "json").json()
    assert (node["state"], node["taints"]) == ("schedulable", ["nvidia.com/gpu:NoSchedule"])
    have = {one["resource"]: one["allocatable"] for one in node["amounts"]}
    assert (have["nvidia.com/gpu"], have["memory"]) == ("4", "512Gi")
    assert "--node: is about a pod" in complaint(
        muster("why", "node/gpu-a1", run, "--node", "x"), 2
    )
    assert "gang nobody: not known" in complaint(muster("why", "gang/nobody", run), 2)


WORLD = """
{kind: List, apiVersion: v1, items: [
  {kind: Node, apiVersion: v1, metadata: {name: n1},
   status: &four {allocatable: {cpu: 4, pods: 9}}},
  {kind: Node, apiVersion: v1, metadata: {name: n2}, status: *four},
  {kind: Node, apiVersion: v1, metadata: {name: n3}, status: *four},
  {kind: Pod, apiVersion: v1, metadata: {name: first},
   spec: {nodeName: n1, containers: &three [{name: c, resources: {requests: {cpu: 3}}}]}},
  {kind: Workload, apiVersion: scheduling.k8s.io/v1alpha1,
   metadata: {name: huge, annotations: {muster.io/gang-timeout: 1s}},
   spec: {podGroups: [{name: w, policy: {gang: {minCount: 3}}}]}},
  {kind: Job, apiVersion: batch/v1, metadata: {name: huge}, spec: {parallelism: 3, completions: 3,
   template: {spec: {restartPolicy: Never, workloadRef: {name: huge, podGroup: w},
              containers: *three}}}},
]}
"""


@pytest.mark.parametrize("placements", ["1", "3"])
def test_a_gang_of_which_some_fit_says_how_many(tmp_path, placements):
    (tmp_path / "world.yaml").write_text(WORLD)
    run = tmp_path / "run"
    words = ("run", tmp_path / "world.yaml", "--run-dir", run, "-p", placements, "-o", "json")
    text = "gang default/huge/w: 2 of 3 members have a node; 1 more: 3 Insufficient cpu"
    assert muster(*words).json()["waiting_by_reason"] == {text: 3}
    found = muster("why", "pod", "default/huge-0", run, "--node", "n2", "-o", "json").json()
    assert found["message"].endswith(f"{text.partition(': ')[2]}.")
    (n2,) = found["nodes"]
    assert (n2["node"], n2["refused_by"]) == ("n2", "")


def test_unknown_pods_and_nodes_are_named(ask, tmp_path):
    assert "pod default/nobody: not known" in complaint(ask("nobody"), 2)
    assert "must be [KIND/][NAMESPACE/]NAME" in complaint(muster("why", "pod/"), 2)
    nowhere = muster("why", "web-1", "--run-dir", tmp_path)
    assert "holds no run" in complaint(nowhere, 2)


def test_a_pod_is_named_as_in_a_story_or_by_kubectl(run, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "first").symlink_to(run)
    answers = {
        muster("why", *words.split(), cwd=tmp_path).out.partition("\n")[0]
        for words in ("web-1", "pod/web-1", "pod web-1", "default/web-1", "web-1 -n default")
    }
    assert len(answers) == 1
    assert answers.pop().startswith("pod default/web-1: bound on ")
    assert "namespace other" in complaint(muster("why", "web-1", run, "-n", "other"), 2)
    story = muster("story", "web-1", cwd=tmp_path)
    assert story.out == muster("story", "pod/default/web-1", run).out
    assert "reading the newest run, runs/first" in story.err
    assert "namespace other" in complaint(muster("story", "web-1", run, "-n", "other"), 2)
    assert muster("replay", "--journal", "permit/0", cwd=tmp_path).code == 0
