"""`muster defrag` as users run it: on the bundled cluster, on a run, and with what it refuses."""

import asyncio
import json
from pathlib import Path

import pytest

from loadtest.defrag import TARGET, figures
from muster.cli.commands.defrag.show import cluster_of_run
from tests.e2e.console import ROOT, complaint, muster, run_of_examples

BUNDLED = ROOT / "examples" / "fragmented.yaml"
MIX = """
horizon: 4h
nodes:
  - count: 24
    template: {status: {allocatable: {cpu: "96", memory: 384Gi, pods: "110", nvidia.com/gpu: "8"}}}
podTemplates:
  one: &one
    spec:
      containers:
        - name: c
          resources: {requests: {cpu: "8", nvidia.com/gpu: "1"}, limits: {nvidia.com/gpu: "1"}}
  two:
    spec:
      containers:
        - name: c
          resources: {requests: {cpu: "16", nvidia.com/gpu: "2"}, limits: {nvidia.com/gpu: "2"}}
batch:
  - name: small
    template: one
    arrival: {process: poisson, perHour: 50}
    size: 1
    duration: {shape: exponential, mean: 90m}
  - name: large
    template: two
    arrival: {process: poisson, perHour: 10}
    size: 1
    duration: {shape: exponential, mean: 90m}
"""


@pytest.fixture(scope="module")
def churned(tmp_path_factory) -> Path:
    """Return the run of some hours of churn."""
    folder: Path = tmp_path_factory.mktemp("churn")
    (folder / "mix.yaml").write_text(MIX)
    done = muster("simulate", "--workloads", folder / "mix.yaml", "--run-dir", folder / "run")
    assert done.code == 0, done.err
    return folder / "run"


def test_the_bundled_cluster_has_a_plan():
    found = muster("defrag", BUNDLED)
    assert found.code == 0, found.err
    assert "nvidia.com/gpu=8: 0 fit now, 1 after 2 moves" in found.out
    assert "in the way, but has no controller that makes it again: research/notebook" in found.out


def test_a_plan_for_a_domain_names_it():
    words = ("--for", "nvidia.com/gpu=4", "--count", "3", "--topology-key", "example.com/rack")
    assert "1 fit now in r1, 3 after 3 moves" in muster("defrag", BUNDLED, *words).out
    short = muster("defrag", BUNDLED, "--count", "2")
    assert "no more than 1 of 2 can be made to fit" in short.out


def test_a_plan_for_a_pending_pod_follows_its_rules(tmp_path):
    resources = {"requests": {"nvidia.com/gpu": "4"}, "limits": {"nvidia.com/gpu": "4"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "research"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": "gpu-b"},
            "containers": [{"name": "c", "resources": resources}],
        },
    }
    folder = tmp_path / "both"
    folder.mkdir()
    (folder / "pod.json").write_text(json.dumps(pod))
    (folder / "cluster.yaml").write_text(BUNDLED.read_text())
    found = muster("defrag", folder, "--for", "pod/train", "-o", "json").json()
    assert [one["node"] for one in found["places"]] == ["gpu-b"]
    assert [one["pod"] for one in found["places"][0]["moves"]] == ["chat/chat-6c5d8-t4wbl"]


def test_after_hours_of_churn_the_plan_reaches_the_target(churned):
    _what, cluster = asyncio.run(cluster_of_run("", churned))
    found = figures(cluster)
    assert found.before < found.planned / 2
    assert found.share >= TARGET


def test_the_plan_of_a_run_is_always_the_same(churned):
    plans = [muster("defrag", churned, "-o", "json", PYTHONHASHSEED=seed).out for seed in "12"]
    assert plans[0] == plans[1]
    assert json.loads(plans[0])["places"]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("--apply",), "--apply: requires --kubeconfig"),
        (("--topology-key", "rack"), "--topology-key: requires --count"),
        (("--kubeconfig", "x"), "defrag: name a SOURCE or a --kubeconfig"),
        (("--for", "cpu"), "--for cpu: must be RESOURCE=AMOUNT,... or pod/[NAMESPACE/]NAME"),
        (("--for", "pod/none"), "--for pod/none: there is no such pod"),
        (("--for", "pod/notebook"), "--for pod/notebook: has a node already"),
        (("--for", "pod/chat-6c5d8-4hx7q/x"), "there is no such pod"),
    ],
)
def test_words_that_cannot_be_used_are_refused(words, rule):
    assert rule in complaint(muster("defrag", BUNDLED, *words), 2)


def test_a_cluster_without_gpus_needs_a_resource(tmp_path):
    world = ROOT / "examples" / "manifests" / "60-impossible.yaml"
    assert "--for: is required: no node has nvidia.com/gpu" in complaint(muster("defrag", world), 2)


def test_a_run_that_lacks_what_a_plan_needs_is_refused(churned, tmp_path):
    pod = muster("defrag", churned, "--for", "pod/one")
    assert "--for pod/one: requires manifests or --kubeconfig" in complaint(pod, 2)
    run = run_of_examples(tmp_path / "run")
    meta = json.loads((run / "meta.json").read_text())
    (run / "meta.json").write_text(json.dumps({**meta, "placements": 3}))
    assert "has 3 shards: must be a run with one" in complaint(muster("defrag", run), 2)
