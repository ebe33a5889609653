"""Worlds and cases from standard input, pipes and files without a suffix: YAML or JSON."""

import io
import json
import os
import sys
import threading
from pathlib import Path

import pytest
import yaml

from muster.cli.main import main
from shared.kubernetes.objects.errors import WorldError
from shared.model.columns import split
from shared.worlds.documents import STDIN
from shared.worlds.manifests import manifests_world
from tests.unit.worlds.manifests import NODE, container, pod

ASKED = [pod("p", containers=[container(cpu="1")]), pod("q", containers=[container(cpu="99")])]
LIST = {"apiVersion": "v1", "kind": "List", "items": [NODE, *ASKED]}
TEXTS = {
    "YAML": yaml.safe_dump_all([NODE, *ASKED]),
    "JSON": json.dumps(LIST),
    "a stream of JSON": "\n".join(json.dumps(one, indent=1) for one in [NODE, *ASKED]),
    "YAML that looks like JSON": "{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n"
    + yaml.safe_dump_all(ASKED),
}


@pytest.fixture
def given(monkeypatch):
    """Put a text on standard input."""

    def put(text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return put


def names(world):
    pods = [name for arrival in world.arrivals for name in split(arrival.pods.names)]
    return [node.name for node in world.nodes], pods


@pytest.mark.parametrize("form", TEXTS)
def test_a_world_is_read_from_standard_input(given, form):
    given(TEXTS[form])
    world = manifests_world([STDIN])
    assert names(world) == (["n1"], ["p", "q"])
    assert world.name == "stdin"


def test_a_world_is_joined_from_standard_input_and_files(given, tmp_path):
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(NODE))
    given(yaml.safe_dump_all(ASKED))
    assert names(manifests_world([tmp_path, STDIN])) == (["n1"], ["p", "q"])


@pytest.mark.parametrize("form", TEXTS)
def test_a_pipe_is_read_like_a_file_without_a_suffix(tmp_path, form):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=[TEXTS[form]])
    writer.start()
    assert names(manifests_world([pipe])) == (["n1"], ["p", "q"])
    writer.join()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "stdin: holds no object"),
        ("{", "stdin: cannot be decoded"),
        (json.dumps(NODE)[:-1], "stdin: cannot be decoded"),
        ('{"kind": "Pod", "kind": "Node"}', "stdin: 'kind' is a duplicate"),
        (yaml.safe_dump(pod(nodeSelecter={})), "stdin: Pod default/p: spec.nodeSelecter: is an"),
    ],
)
def test_errors_name_standard_input(given, text, line):
    given(text)
    with pytest.raises(WorldError) as raised:
        manifests_world([STDIN])
    assert str(raised.value).startswith(line)


def test_a_run_of_standard_input(given, tmp_path, capsys):
    given(TEXTS["YAML"])
    assert main(["run", "-", "--run-dir", str(tmp_path / "run"), "-o", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["world"], result["bound"], result["waiting"]) == ("stdin", 1, 1)


def asked(capsys):
    return [(one["name"], one["best"]) for one in json.loads(capsys.readouterr().out)["pods"]]


@pytest.mark.parametrize("form", TEXTS)
def test_manifests_are_a_case_that_asks_for_pods_without_a_node(given, capsys, form):
    given(TEXTS[form])
    assert main(["score", "-", "-o", "json"]) == 0
    best = [] if "looks like" in form else ["n1"]  # a Node without any room
    assert asked(capsys) == [("p", best), ("q", [])]


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
def test_a_case_is_read_from_standard_input(given, capsys, dump):
    given(dump({"objects": [NODE], "pods": ASKED[:1]}))
    assert main(["score", "-", "-o", "json"]) == 0
    assert asked(capsys) == [("p", ["n1"])]


def test_pods_with_a_node_and_finished_pods_are_not_asked_about(tmp_path, capsys):
    there = pod("there", containers=[container(cpu="7")], nodeName="n1")
    done = pod("done") | {"status": {"phase": "Succeeded"}}
    path = tmp_path / "all.yaml"
    two = pod("two", containers=[container(cpu="2")])
    path.write_text(yaml.safe_dump_all([NODE, there, done, ASKED[0], two]))
    assert main(["score", str(path), "-o", "json"]) == 0
    assert asked(capsys) == [("p", ["n1"]), ("two", [])]


@pytest.mark.parametrize("text", ["{}", json.dumps(NODE), '{"objects": [], "pods": []}'])
def test_a_case_without_a_pod_is_refused(given, capsys, text):
    given(text)
    assert main(["score", "-"]) == 2
    assert "stdin: pods: holds no Pod without a node to ask about" in capsys.readouterr().err


def test_plugins_are_checked_with_a_case_of_standard_input(given, capsys):
    example = Path(__file__).resolve().parents[3] / "examples" / "plugins"
    given(TEXTS["YAML"])
    words = ["--config", str(example / "scheduler-config.yaml"), "--check-plugin", "-o", "json"]
    assert main(["score", "-", *words, "--plugin", str(example / "off_spot.py")]) == 0
    assert asked(capsys) == [("p", ["n1"]), ("q", [])]
