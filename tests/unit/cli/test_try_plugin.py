"""`muster.plugin.try_plugin`: what a plugin says of a pod, for tests of plugins."""

import subprocess
import sys
from pathlib import Path

import pytest

from muster.plugin import Tried, try_plugin
from shared.scheduling.api.custom.plugin import PLUGINS

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "plugins"
NODES = """
metadata: {name: a, labels: {lifecycle: spot, rack: "1"}}
---
metadata: {name: b, labels: {rack: "2"}}
---
metadata: {name: c, labels: {rack: "4"}}
"""
CRITICAL = {"metadata": {"labels": {"tier": "critical"}}}


def node(name: str, **labels: str):
    return {"metadata": {"name": name, "labels": labels}}


def written(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(f"from muster.plugin import *\nclass Mine(Plugin):\n{body}")
    return path


def test_a_filter_and_a_score_are_asked():
    found = try_plugin(EXAMPLES / "off_spot.py", NODES, CRITICAL)
    assert found == Tried({"a": "node(s) were spot instances"}, {"b": 50, "c": 100})
    assert found.feasible == ["b", "c"]
    assert try_plugin(EXAMPLES / "off_spot.py", NODES).scores == {"a": 25, "b": 50, "c": 100}


def test_nodes_and_pods_may_be_dicts_or_yaml():
    nodes = [node("a", lifecycle="spot"), node("b", rack="3")]
    as_dicts = try_plugin(EXAMPLES / "off_spot.py", nodes, CRITICAL)
    as_text = try_plugin(
        str(EXAMPLES / "off_spot.py"),
        'metadata: {name: b, labels: {rack: "3"}}\n---\n'
        "{kind: Node, apiVersion: v1, metadata: {name: a, labels: {lifecycle: spot}}}",
        "metadata: {labels: {tier: critical}}",
    )
    assert as_dicts == as_text == Tried({"a": "node(s) were spot instances"}, {"b": 100})


def test_other_plugins_and_other_tests_do_not_count():
    full = [node("a") | {"spec": {"unschedulable": True}}]
    assert try_plugin(EXAMPLES / "off_spot.py", full).feasible == ["a"]
    assert not PLUGINS


def test_a_node_with_amounts_takes_what_fits():
    small = node("a") | {"status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "1"}}}
    asks = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    assert try_plugin(EXAMPLES / "off_spot.py", [small], asks).rejected == {"a": "Insufficient cpu"}


def test_pods_on_nodes_take_what_the_plugin_reserves():
    there = {"metadata": {"name": "p", "labels": {"licenses": "2"}}, "spec": {"nodeName": "a"}}
    asked = {"metadata": {"labels": {"licenses": "2"}}}
    nodes = [node("a", licenses="3"), node("b", licenses="3")]
    found = try_plugin(EXAMPLES / "licenses.py", [*nodes, there | {"kind": "Pod"}], asked)
    assert found.rejected == {"a": "node(s) had too few licenses left"}


def test_arguments_are_those_of_pluginconfig():
    nodes = [node("near", rack="1"), node("far", rack="5")]
    near = EXAMPLES / "near.py"
    assert try_plugin(near, nodes, args={"Near": {"label": "rack"}}).feasible == ["near", "far"]
    args = {"Near": {"label": "rack", "largest": 1}}
    assert try_plugin(near, nodes, args=args).rejected == {"far": "node(s) were too far away"}
    with pytest.raises(ValueError, match="Near: Object missing required field `label`"):
        try_plugin(near, nodes)


def test_a_pod_that_no_node_may_take_is_rejected_everywhere(tmp_path):
    path = written(tmp_path, " def pre_filter(self, pod): return 'not today'\n")
    assert try_plugin(path, NODES).rejected == dict.fromkeys("abc", "not today")


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (" def filter(self, pod, nodes): return nodes.no\n", RuntimeError, r"failed in filter \(m"),
        (
            " def score(self, pod, nodes): return 'x'\n",
            RuntimeError,
            r"failed in score .*: ValueError: shape \(\) for 3",
        ),
        (" def filtre(self, pod, nodes): pass\n", ValueError, "did you mean filter?"),
        (
            " n = [0]\n def score_node(self, pod, node): self.n.append(1); return len(self.n)\n",
            ValueError,
            "two answers",
        ),
    ],
)
def test_a_plugin_that_a_run_would_refuse_or_report_is_an_error(tmp_path, body, error, text):
    with pytest.raises(error, match=text):
        try_plugin(written(tmp_path, body), NODES)
    assert not PLUGINS


def test_a_plugin_that_acts_is_refused():
    with pytest.raises(ValueError, match="Pairs acts when a pod is bound: try it with muster run"):
        try_plugin(EXAMPLES / "pairs.py", NODES)


def test_a_misspelt_field_is_refused():
    with pytest.raises(ValueError, match=r"Node a: metadata.lables: .*did you mean labels\?"):
        try_plugin(EXAMPLES / "off_spot.py", [{"metadata": {"name": "a", "lables": {}}}])


def test_the_tutorial_is_a_plugin_with_tests_that_pass(tmp_path):
    page = (ROOT / "docs" / "tutorial" / "test-a-plugin.md").read_text(encoding="utf-8")
    plugin, test = (part.split("```", 1)[0] for part in page.split("```python\n")[1:])
    (tmp_path / "quiet.py").write_text(plugin)
    (tmp_path / "test_quiet.py").write_text(test)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
