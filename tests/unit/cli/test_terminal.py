"""Texts from outside reach logs and terminals as one printable line, on every path."""

import io
import json
import logging
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from muster.app.live import Standing
from muster.cli import logs
from muster.cli.commands import replay, score, story, why
from muster.cli.commands.why import lines_of
from muster.cli.display import LiveDisplay
from muster.cli.errors import Fault
from muster.cli.logs import FORMAT, OneLine
from muster.cli.output import RecordText, time_of
from muster.explain.run_summary import WaitingReason
from muster.explain.summary import show
from muster.explain.why.answers import Answer, Reason
from shared.kubernetes.cluster import KubeCluster
from shared.kubernetes.objects.errors import WorldError
from shared.model.api_outcome import Answer as Said
from shared.model.ids import BINDING
from shared.replay.replay import ReplayReport
from tests.support.terminal import Terminal
from tests.unit.kubernetes.conftest import api, cluster, new_cluster  # noqa: F401 (fixtures)
from tests.unit.kubernetes.fake_api import FakeApi, status
from tests.unit.kubernetes.test_writing import bind, request

FOREIGN = "denied by \x1b[31mwebhook\x1b[0m\n2026-11-25 CRITICAL forged \u202eline [/red]"
SHOWN = "denied by \\x1b[31mwebhook\\x1b[0m 2026-11-25 CRITICAL forged \\u202eline [/red]"
ANSWER = Answer(
    pod="default/a", state="unschedulable", message=FOREIGN, reasons=(Reason(FOREIGN, 3),)
)
STORY = RecordText(time_of(1), BINDING, 7, f"a not bound: {FOREIGN}")


@pytest.fixture
def log() -> Any:
    """Yield the output of the product's own logger."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(OneLine(FORMAT))
    ours = logging.getLogger("muster")
    ours.addHandler(handler)
    yield out
    ours.removeHandler(handler)


@pytest.fixture
def terminal(monkeypatch) -> Terminal:
    """Return a wide terminal without colours."""
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("NO_COLOR", "1")
    return Terminal()


async def test_a_webhooks_message_is_one_clean_line_of_the_log(
    cluster: KubeCluster,  # noqa: F811
    api: FakeApi,  # noqa: F811
    log: io.StringIO,
):
    async def deny(_request: Any) -> Any:
        return status(422, FOREIGN + " and so on" * 100)

    api.pod("a")
    api.faults.append(("binding", deny))
    assert await bind(cluster, request(api, "a")) == [Said.REFUSED]
    (line,) = log.getvalue().splitlines()
    assert f"WARNING muster.kube: bind default/a: 422 {SHOWN}" in line
    assert line.isprintable()
    assert line.endswith(" ...")
    assert len(line) < 300


def test_a_traceback_forges_no_line(log: io.StringIO):
    try:
        raise ValueError(FOREIGN)
    except ValueError:
        logging.getLogger("muster.test").exception("it failed: %s", FOREIGN)
    first, *rest = log.getvalue().splitlines()
    assert first.endswith(f"ERROR muster.test: it failed: {SHOWN}")
    assert len(rest) > 3
    assert all(line.startswith("  ") and line.isprintable() for line in rest)


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_products_log_has_one_line_for_each_record(form, monkeypatch):
    ours, root = logging.getLogger("muster"), logging.getLogger()
    for logger in (ours, root):
        monkeypatch.setattr(logger, "handlers", [])
    for name in ("level", "propagate"):
        monkeypatch.setattr(ours, name, getattr(ours, name))
    monkeypatch.setattr(root, "level", root.level)
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    logs.set_up()
    logs.set_up(form)
    logging.getLogger("muster.test").info(FOREIGN)
    logging.getLogger("other").warning("not ours")
    (line,) = out.getvalue().splitlines()
    assert line.isprintable()
    if form == "text":
        assert line.endswith(f"INFO muster.test: {SHOWN}")
    else:
        found = json.loads(line)
        assert (found["level"], found["logger"], found["message"]) == (
            "INFO",
            "muster.test",
            FOREIGN,
        )
    logs.show_debug()
    logging.getLogger("other").warning("shown")
    assert "shown" in out.getvalue()


def test_the_live_line_has_reasons_on_lines_of_their_own(terminal, caplog):
    caplog.set_level("INFO", "muster.run")
    standing = Standing(seconds=9.0, waiting=3, reasons=[(3, FOREIGN)])
    with LiveDisplay(io.StringIO()) as display:
        display.show(standing)
    assert caplog.messages[-1] == f"  3 pods: {SHOWN}"
    with LiveDisplay(terminal) as display:
        display.show(standing)
        assert f"3 pods: {SHOWN}" in terminal.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_tables_show_text_from_outside_as_it_is(is_terminal, terminal, monkeypatch):
    monkeypatch.setattr("muster.explain.summary.rows", lambda _result: [("world", FOREIGN)])
    out = terminal if is_terminal else io.StringIO()
    monkeypatch.setattr("muster.explain.summary.headline", lambda _result: [])
    reasons = [WaitingReason(FOREIGN, pods=3, mainly=0, names=[])]
    show(cast(Any, SimpleNamespace(waiting=3, waiting_reasons=reasons)), out)
    assert out.getvalue().count(SHOWN) == 2
    assert "\x1b[31m" not in out.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_story_shows_text_from_outside_as_it_is(is_terminal, terminal, monkeypatch):
    async def lines(*_words: Any) -> tuple[list[RecordText], datetime]:
        return [STORY], STORY.time

    out = terminal if is_terminal else io.StringIO()
    monkeypatch.setattr(story, "_lines", lines)
    monkeypatch.setattr(sys, "stdout", out)
    story.print_story("pod/a", "", None, "", 1, "text")
    head, line = out.getvalue().splitlines()
    assert head == "times are since the first record, 1970-01-01T00:00:00.001Z"
    assert f"binding/0 7  a not bound: {SHOWN}" in line


def test_why_shows_text_from_outside_as_it_is(monkeypatch, capsys):
    async def asked(*_words: Any) -> tuple[Answer, int]:
        return ANSWER, 0

    monkeypatch.setattr(why, "_asked", asked)
    why.print_why(why.Question("pod", "default/a", "", ""), Path("none"), "", 1, "text")
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "pod default/a: unschedulable",
        f"  {SHOWN}",
        f"        3 nodes: {SHOWN}",
    ]
    assert len(lines) == len(lines_of(ANSWER, time_of(0)))


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        ("gang a/g: 1 of 2 members have a node; 1 more.", 2),
        ("0/3 nodes are available: 3 Insufficient cpu.", 3),
    ],
)
def test_why_names_the_gang_once(message, lines):
    answer = Answer(pod="a/p", state="waiting for its gang", message=message, gang="a/g")
    found = lines_of(answer, time_of(0))
    assert len(found) == lines
    assert sum("gang a/g" in line for line in found) == 1


def test_output_for_programs_is_the_same_text_in_ascii(monkeypatch, capsys):
    async def asked(*_words: Any) -> tuple[Answer, int]:
        return ANSWER, 0

    monkeypatch.setattr(why, "_asked", asked)
    why.print_why(why.Question("pod", "default/a", "", ""), Path("none"), "", 1, "json")
    said = capsys.readouterr().out
    assert all(line.isprintable() for line in said.splitlines())
    assert said.isascii()
    assert json.loads(said)["message"] == FOREIGN


def test_a_replay_shows_text_from_outside_as_it_is(capsys):
    report = ReplayReport(BINDING)
    report.problems.append((7, FOREIGN))
    replay._show([report], story.rows_of([STORY], STORY.time), 0.1)
    said = capsys.readouterr().out
    assert said.replace("\n", "").count(SHOWN) == 2
    assert all(line.isprintable() for line in said.splitlines())


def test_a_score_shows_text_from_outside_as_it_is(terminal):
    node = {"feasible": False, "total": 0, "plugin": "NodeName", "reasons": [FOREIGN]}
    pod: Any = {"namespace": "default", "name": FOREIGN, "nodes": {FOREIGN: node}}
    Console(file=terminal).print(score._table(pod))
    assert terminal.getvalue().count(SHOWN) == 3


def test_an_error_that_ends_a_command_is_one_line():
    assert str(Fault(FOREIGN)) == SHOWN
    assert str(WorldError("a.yaml", "name", FOREIGN)) == f"a.yaml: name: {SHOWN}"
