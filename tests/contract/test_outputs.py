"""What commands print with `-o json` has the published schemas: every key, and no other."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from muster.app.live import Standing, summary_of
from muster.cli.output import json_text
from muster.generate.schemas import OUTPUTS, ROOT
from shared.scheduling.api.custom.failures import Failure

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
EXAMPLES = ROOT.parent / "examples"
WORLD = """
apiVersion: muster.io/v1alpha1
kind: Queue
metadata: {name: team}
spec: {max: {cpu: 4}}
---
{kind: List, apiVersion: v1, items: [
  {kind: Node, apiVersion: v1, metadata: {name: a}, status: &four {allocatable: {cpu: 4, pods: 9}}},
  {kind: Node, apiVersion: v1, metadata: {name: b}, status: *four},
  {kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: high}, value: 9},
  {kind: Pod, apiVersion: v1, metadata: {name: low},
   spec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}},
  {kind: Pod, apiVersion: v1, metadata: {name: other},
   spec: {priorityClassName: high, containers: [{name: c, resources: {requests: {cpu: 3}}}]}},
  {kind: Pod, apiVersion: v1, metadata: {name: urgent, annotations: {muster.io/arrives-after: 9s}},
   spec: {priorityClassName: high, containers: [{name: c, resources: {requests: {cpu: 4}}}]}},
  {kind: Workload, apiVersion: scheduling.k8s.io/v1alpha1,
   metadata: {name: train, annotations: {muster.io/gang-timeout: 1s}},
   spec: {podGroups: [{name: w, policy: {gang: {minCount: 2}}}]}},
  {kind: Job, apiVersion: batch/v1, metadata: {name: train}, spec: {parallelism: 2, completions: 2,
   template: {spec: {restartPolicy: Never, workloadRef: {name: train, podGroup: w},
     containers: [{name: c, resources: {requests: {cpu: 4}}}]}}}},
]}
"""
FLOOD = """
steps: [
  {opcode: createNodes, count: 2},
  {opcode: createPods, count: 9, arrival: {process: poisson, perSecond: 100}, runsFor: 100ms},
  {opcode: barrier},
]
"""
MIX = """
horizon: 10m
nodes: [{count: 2, domains: {rack: 1}}]
training: [{name: llm, arrival: {process: even, perHour: 60}, size: 2, duration: 1m}]
"""
WORDS = {
    "defrag": f"defrag {EXAMPLES / 'fragmented.yaml'}",
    "run": "run world.yaml --run-dir runs/one",
    "flood": "flood flood.yaml --run-dir flood",
    "flood-compare": "flood --compare flood/summary.json flood/summary.json",
    "get-gangs": "get gangs",
    "get-nodes": "get nodes",
    "get-pods": "get pods",
    "get-queues": "get queues",
    "get-runs": "get runs",
    "replay": "replay --processes 1",
    "score": f"score {EXAMPLES / 'case.json'}",
    "simulate": "simulate --workloads mix.yaml --run-dir mix",
    "story": "story urgent",
    "why-gang": "why gang/train/w",
    "why-node": "why node/a",
    "why-pod": "why low",
}
STANDING = Standing(
    seconds=1.5,
    reasons=[(2, "why")],
    plugin_failures=[Failure("Own", "score", "own.py", 3, "KeyError: 'x'", 2)],
)


CHILD = """
import io, json, sys
from contextlib import redirect_stdout
from muster.cli.main import main

said = {}
for name, words in json.loads(sys.argv[1]).items():
    with redirect_stdout(io.StringIO()) as out:
        assert main([*words.split(), "-o", "json"]) == 0, words
    said[name] = out.getvalue()
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> dict[str, str]:
    """Return what the commands print about one run, in a process without others' plugins."""
    folder = tmp_path_factory.mktemp("outputs")
    (folder / "world.yaml").write_text(WORLD)
    (folder / "flood.yaml").write_text(FLOOD)
    (folder / "mix.yaml").write_text(MIX)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(WORDS)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT.parent)},
        stdout=subprocess.PIPE,
        check=True,
    )
    texts: dict[str, str] = json.loads(done.stdout)
    return {**texts, "run-live": json_text(summary_of(STANDING, Path("runs/live"), 0)) + "\n"}


@pytest.fixture(params=sorted(OUTPUTS))
def output(request) -> Any:
    return request.param


def schema_of(name: str) -> Any:
    return json.loads((ROOT / "outputs" / f"{name}.json").read_text())


def test_an_output_has_its_schema(said, output):
    schema = schema_of(output)
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(json.loads(said[output]))


def test_an_output_has_no_key_that_its_schema_has_not(said, output):
    schema = schema_of(output)
    for definition in schema["$defs"].values():
        definition["additionalProperties"] = False
    Draft202012Validator(schema).validate(json.loads(said[output]))


def test_a_moment_is_rfc_3339_and_has_time_in_its_key(said, output):
    for key, value in keys_of(json.loads(said[output])):
        is_moment = (key == "time" or key.endswith("_time")) and key != "virtual_time"
        if is_moment:
            assert value is None or TIME.fullmatch(value), (key, value)
        else:
            assert not (isinstance(value, str) and TIME.fullmatch(value)), key
            assert not (isinstance(value, int) and value > 1_600_000_000_000), key


@pytest.mark.parametrize("name", WORDS)
def test_an_output_is_one_indented_document_in_ascii(said, name):
    text = said[name]
    assert text.isascii()
    assert text.splitlines()[1].startswith("  ")
    assert text == json.dumps(json.loads(text), indent=2) + "\n"


def test_every_output_of_the_run_has_something_in_it(said):
    """An empty list would have any schema."""
    assert json.loads(said["why-pod"])["evicted"]["time"] is not None
    assert json.loads(said["why-gang"])["wait_start_time"] is not None
    assert json.loads(said["story"])[0]["time"].startswith("2023-11-14T22:13:")
    assert json.loads(said["replay"])["journals"][0]["ok"]
    assert (
        len(json.loads(said["defrag"])["places"]) == len(json.loads(said["defrag"])["stays"]) == 1
    )
    assert [one["run"] for one in json.loads(said["get-runs"])] == ["runs/one"]
    assert json.loads(said["run"])["latency_ms"]["max"] >= 0
    assert json.loads(said["flood"])["latency_ms"]["max"] >= 0
    assert json.loads(said["simulate"])["classes"][0]["sizes"][0]["wait_s"]["count"] == 10
    assert all(len(json.loads(said[f"get-{kind}"])) for kind in ("pods", "gangs", "nodes"))


@pytest.mark.parametrize(
    "key", ["complete", "confirmed", "gangs_that_another_packing_would_fit", "void_records"]
)
def test_the_summarys_odd_keys_are_explained(key):
    assert len(schema_of("run")["$defs"]["RunSummary"]["properties"][key]["description"]) > 50


def test_the_page_names_every_schema():
    page = (ROOT.parent / "docs" / "reference" / "outputs.md").read_text()
    assert all(f"`schemas/outputs/{name}.json`" in page for name in OUTPUTS)


def keys_of(value: Any) -> list[tuple[str, Any]]:
    """Return all keys with a plain value, at any depth."""
    if isinstance(value, list):
        return [pair for one in value for pair in keys_of(one)]
    if not isinstance(value, dict):
        return []
    plain = [(key, one) for key, one in value.items() if not isinstance(one, list | dict)]
    return plain + [pair for one in value.values() for pair in keys_of(one)]
