"""`muster get runs` and `muster runs rm`: what a run's folder is, and which may be deleted."""

import json
import os
from pathlib import Path

import pytest

from muster.cli.commands.get import Asked, print_list
from muster.cli.commands.runs import is_live_now, list_runs, remove_runs
from muster.cli.errors import UsageFault
from shared.bus.sqlite.file import SqliteFile

WORLD = {"format": 1, "world": ["openb:", "x"], "placements": 1}
LIVE = {"format": 1, "live": True, "placements": 1}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def a_run(name: str, written_s: int, meta: object = WORLD, summary: object = None) -> Path:
    folder = Path("runs") / name
    folder.mkdir(parents=True)
    SqliteFile(folder / "journals.db").close()
    (folder / "meta.json").write_text(json.dumps(meta))
    if summary is not None:
        (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "snapshots").mkdir()
    os.utime(folder / "journals.db", (written_s, written_s))
    return folder


def states() -> dict[str, str]:
    return {cells["RUN"]: cells["STATE"] for cells in list_runs().cells}


def test_runs_are_listed_with_the_newest_last():
    a_run("b", 20, summary={"complete": True, "interrupted": False, "bound": 1_234, "waiting": 5})
    a_run("a", 30, LIVE)
    a_run("c", 10)
    found = list_runs()
    assert found.names == ["runs/c", "runs/b", "runs/a"]
    old, done, live = found.cells
    assert (done["WORLD"], done["BOUND"], done["WAITING"]) == ("openb: x", "1,234", "5")
    assert done["SIZE"] == "0.0 MB"
    assert (live["WORLD"], live["BOUND"], old["WAITING"]) == ("live", "", "")


@pytest.mark.parametrize(
    ("meta", "summary", "state"),
    [
        (WORLD, {"complete": True}, "complete"),
        (WORLD, {"complete": False, "interrupted": False}, "not complete"),
        (WORLD, {"complete": False, "interrupted": True}, "interrupted"),
        (WORLD, None, "interrupted"),
        (LIVE, None, "stopped"),
        ({"format": 2}, None, "unknown"),
    ],
)
def test_a_run_has_a_state(meta, summary, state):
    folder = a_run("a", 10, meta, summary)
    assert states() == {"runs/a": state}
    file = SqliteFile(folder / "journals.db", exclusive=True)
    assert states() == {"runs/a": "running"}
    file.close()
    assert states() == {"runs/a": state}


def test_named_runs_are_deleted(capsys):
    first, second = a_run("a", 10), a_run("b", 20)
    remove_runs([first, first], None)
    assert not first.exists()
    assert second.exists()
    assert capsys.readouterr().out == "runs/a deleted, 0.0 MB\n"


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_run_in_use_is_refused_and_nothing_is_deleted(exclusive):
    first, second = a_run("a", 10), a_run("b", 20)
    file = SqliteFile(second / "journals.db", exclusive=exclusive)
    with pytest.raises(UsageFault, match="runs/b: in use by another process; stop it first"):
        remove_runs([first, second], None)
    assert first.exists()
    file.close()
    remove_runs([first, second], None)
    assert list(Path("runs").iterdir()) == []


def test_all_but_the_newest_and_those_in_use_are_deleted():
    for name, written_s in (("a", 10), ("b", 20), ("c", 30), ("d", 40)):
        a_run(name, written_s)
    (Path("runs") / "journals" / "of-serve").mkdir(parents=True)
    (Path("runs") / "journals" / "journals.db").touch()
    file = SqliteFile(Path("runs/a/journals.db"))
    for written in Path("runs/a").glob("journals.db*"):
        os.utime(written, (10, 10))
    remove_runs((), 2)
    file.close()
    assert sorted(one.name for one in Path("runs").iterdir()) == ["a", "c", "d", "journals"]
    remove_runs((), 0)
    assert [one.name for one in Path("runs").iterdir()] == ["journals"]


def no_journals() -> Path:
    (a_run("a", 10) / "journals.db").unlink()
    return Path("runs/a")


def no_meta() -> Path:
    (a_run("a", 10) / "meta.json").unlink()
    return Path("runs/a")


def more_than_a_run() -> Path:
    (a_run("a", 10) / "thesis.tex").touch()
    return Path("runs/a")


def a_link() -> Path:
    a_run("a", 10)
    Path("link").symlink_to("runs/a")
    return Path("link")


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (no_journals, "runs/a: holds no run"),
        (no_meta, "runs/a/meta.json: cannot be read"),
        (more_than_a_run, "runs/a: also holds thesis.tex, which is not of a run"),
        (a_link, "link: is a link"),
    ],
)
def test_only_a_folder_that_is_a_run_and_nothing_else_is_deleted(make, line):
    folder = make()
    files = sorted(folder.rglob("*"))
    with pytest.raises(UsageFault, match=line):
        remove_runs([folder], None)
    assert sorted(folder.rglob("*")) == files


@pytest.mark.parametrize(("runs", "keep"), [((), None), ((Path("runs/a"),), 1)])
def test_runs_are_named_or_counted(runs, keep):
    with pytest.raises(UsageFault, match="runs rm: name a RUN or --keep N"):
        remove_runs(runs, keep)


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        (Asked("runs", Path("runs/a"), "", False, "", 1), "RUN"),
        (Asked("runs", None, "", False, "kafka://a:1", 1), "--bus"),
        (Asked("runs", None, "", True, "", 1), "--waiting"),
        (Asked("nodes", None, "a", False, "", 1), "--namespace"),
    ],
)
def test_an_option_without_a_meaning_for_the_list_is_refused(asked, option):
    with pytest.raises(UsageFault, match=f"{option}: cannot be combined with get {asked.kind}"):
        print_list(asked, "text")


@pytest.mark.parametrize(("meta", "is_live"), [(LIVE, True), (WORLD, False), ({}, False)])
def test_ages_are_those_of_now_only_while_a_live_run_goes_on(meta, is_live):
    folder = a_run("a", 1, meta)
    assert not is_live_now(folder), "it has ended"
    owner = SqliteFile(folder / "journals.db", exclusive=True)
    assert is_live_now(folder) is is_live
    owner.close()
