"""Progress: plain lines in a pipe, lines that redraw themselves in a terminal, or nothing."""

import json
import time
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest

from muster.app import live
from muster.app.live import LiveRunner, Standing, line_of, summary_of
from muster.app.runner import Progress
from muster.cli.display import LINE_MAX, FloodDisplay, JsonLines, LiveDisplay, RunDisplay
from muster.flood import player
from tests.support.terminal import Terminal

RUN = Path("runs/live")


def shown(terminal: bool, quiet: bool, seconds: tuple[float, ...]) -> str:
    out = Terminal() if terminal else StringIO()
    with RunDisplay(out, "a world", quiet=quiet) as display:
        for at_s in seconds:
            display.show(Progress(9, created=7, bound=5, evicted=1, seconds=at_s))
    return out.getvalue()


def test_piped_progress_is_a_line_every_few_seconds():
    line = "5 of 9 bound, 2 waiting, 1 evicted"
    assert shown(False, False, (0.1, 3.0, 3.1, 6.0)) == f"   3.0 s  {line}\n   6.0 s  {line}\n"


def test_progress_in_a_terminal_is_removed_at_the_end():
    out = shown(True, False, (0.1,))
    assert "5/9" in out
    assert "\x1b[" in out
    assert out.endswith("\x1b[2K"), "the line is cleared"


def test_progress_of_a_flood_has_its_rate_and_the_time_left():
    progress = player.Progress(2_000, 1_500, 1_000, 500, 250.0, 3.0, 4.0)
    lines = {False: StringIO(), True: Terminal()}
    for out in lines.values():
        with FloodDisplay(out, "w") as display:
            display.show(progress)
    line = "1,000 of 2,000 bound, 500 waiting, 250 pods/s, 4 s left"
    assert lines[False].getvalue() == f"   3.0 s  {line}\n"
    assert "bound 500 waiting, 250 pods/s, 4 s left" in lines[True].getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_output_for_programs_has_no_progress(terminal):
    assert shown(terminal, True, (3.0, 6.0)) == ""


def test_a_live_run_logs_only_changes(caplog):
    caplog.set_level("INFO", "muster.run")
    with LiveDisplay(StringIO()) as display:
        for at_s, bound in ((0.0, 1), (3.0, 1), (4.0, 2), (5.0, 3), (7.0, 3)):
            display.show(standing(at_s, bound))
    assert [line.split(" bound")[0].split()[-1] for line in caplog.messages] == ["1", "2", "3"]


def test_json_of_a_live_run_is_a_line_for_each_change(capsys):
    lines = JsonLines(RUN)
    for at_s, bound in ((0.0, 1), (3.0, 1), (4.0, 2), (5.0, 3), (7.0, 3)):
        lines.show(standing(at_s, bound))
    lines.print(standing(8.0, 3))
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["seconds"], one["bound"]) for one in found] == [(0, 1), (4, 2), (7, 3), (8, 3)]


def test_log_lines_of_a_live_run_are_cut(caplog):
    caplog.set_level("INFO", "muster.run")
    with LiveDisplay(StringIO()) as display:
        display.show(Standing(waiting=1, reasons=[(1, "long " * 100)]))
    _counts, reason = caplog.messages
    assert reason.startswith("  1 pod: long long")
    assert reason.endswith("...")
    assert len(reason) == LINE_MAX


def test_a_live_run_reports_events_that_were_not_sent():
    assert "dropped" not in line_of(standing(1.0, 2))
    dropped = Standing(bound=2, requests={"events_sent": 9, "events_dropped": 1_234})
    assert line_of(dropped).endswith(", 1,234 events dropped")
    assert summary_of(dropped, RUN, 0).events_dropped == 1_234


def test_a_live_run_counts_bad_snapshots():
    assert "snapshots" not in line_of(Standing(requests={"snapshots_bad": 0}))
    assert line_of(Standing(requests={"snapshots_bad": 2})).endswith(", 2 bad snapshots")


def test_slow_summaries_of_reasons_are_rare(monkeypatch):
    now_s, sums = [100.0], []

    def reasons(_state: object) -> list[tuple[int, str]]:
        now_s[0] += 0.06
        sums.append(now_s[0])
        return [(len(sums), "why")]

    monkeypatch.setattr(live, "_reasons", reasons)
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    runner = LiveRunner(cast(Any, None), cast(Any, None), lambda _standing: None, cast(Any, None))
    for _tick in range(300):
        now_s[0] += 0.2
        assert runner._why(cast(Any, None)) == [(len(sums), "why")]
    assert 3 <= len(sums) <= 5


def test_a_live_run_reports_objects_left_out():
    assert "left out" not in line_of(standing(1.0, 2))
    left_out = Standing(left_out={"Node": 1, "Pod": 1_234})
    assert line_of(left_out).endswith(", left out: 1 Node and 1,234 Pod")
    assert summary_of(left_out, RUN, 0).left_out == {"Node": 1, "Pod": 1_234}


def standing(seconds: float, bound: int) -> Standing:
    return Standing(seconds=seconds, bound=bound)
