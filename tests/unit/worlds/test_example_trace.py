"""examples/trace: a small made-up trace in the form of openb, and what the tutorial says of it."""

import json
from pathlib import Path

import pytest

from muster.cli.main import main
from shared.worlds.traces.published import FILES

ROOT = Path(__file__).resolve().parents[3]
TRACE = ROOT / "examples" / "trace"
MAIN = "openb:examples/trace,latecomers=12,late-gangs=2"
QUICK = "latecomers-at=500ms,late-gangs-at=1s,gang-timeout=1s"


def test_the_example_trace_is_small():
    lines = {path.name: len(path.read_text().splitlines()) for path in TRACE.iterdir()}
    assert lines.keys() == {name for name in FILES if name.startswith("openb")}
    assert lines["openb_node_list_all_node.csv"] <= 60
    assert max(lines.values()) <= 300


def test_no_row_of_it_is_published(data):
    for path in TRACE.iterdir():
        _, *rows = path.read_text().splitlines()
        published = (data / "openb" / path.name).read_text().splitlines()
        parts = {line.partition(",")[2] for line in published if "," in line}
        assert not {row.partition(",")[2] for row in rows} & parts


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        (["openb:examples/trace", "--plain"], {"nodes": 26, "pods": 240, "waiting": 103}),
        ([f"{MAIN},{QUICK}"], {"nodes": 26, "pods": 252, "gangs": 5}),
    ],
)
def test_the_example_trace_runs_to_the_end(monkeypatch, capsys, tmp_path, words, counts):
    monkeypatch.chdir(ROOT)
    assert main(["run", *words, "--run-dir", str(tmp_path / "run"), "-o", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["complete"], result["confirmed"]) == (True, True)
    assert {name: result[name] for name in counts} == counts
