"""The words that name an object and a run, in one grammar for `why` and `story`."""

import os
from pathlib import Path

import pytest

from muster.cli.errors import UsageFault
from muster.cli.run_directory import SERVED, chosen_run
from muster.cli.subject import subject_of

RUN = Path("runs/x")


@pytest.mark.parametrize(
    ("words", "kind", "name", "run"),
    [
        ("web-1", "pod", "web-1", None),
        ("ml/web-1", "pod", "ml/web-1", None),
        ("pod/web-1", "pod", "web-1", None),
        ("pod/ml/web-1 runs/x", "pod", "ml/web-1", RUN),
        ("pod web-1", "pod", "web-1", None),
        ("pod ml/web-1 runs/x", "pod", "ml/web-1", RUN),
        ("web-1 runs/x", "pod", "web-1", RUN),
        ("gang/default/train/workers", "gang", "default/train/workers", None),
        ("node n1 runs/x", "node", "n1", RUN),
    ],
)
def test_an_object_has_one_name_in_several_forms(words, kind, name, run):
    assert subject_of(words.split()) == (kind, name, run)


@pytest.mark.parametrize("words", ["pod", "pod/", "/web", "ml/", "pod//a", "web-1 runs/x more"])
def test_other_words_are_refused_with_the_form(words):
    with pytest.raises(UsageFault, match=r"must be \[KIND/\]\[NAMESPACE/\]NAME"):
        subject_of(words.split())


def _run(name: str, written_s: int) -> Path:
    folder = Path("runs") / name
    folder.mkdir(parents=True)
    (folder / "journals.db").touch()
    os.utime(folder / "journals.db", (written_s, written_s))
    return folder


def test_without_a_name_the_run_written_last_is_read(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageFault, match="runs: holds no run yet"):
        chosen_run(None, "")
    _run("20261127-100000", 50)
    live = _run("live", 10)
    assert chosen_run(None, "").name == "20261127-100000"
    caplog.set_level("INFO", "muster.run")
    (live / "journals.db-wal").touch()
    assert chosen_run(None, "") == live
    assert caplog.messages == [f"reading the newest run, {live}"]


def test_a_named_run_or_a_bus_needs_no_search(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert chosen_run(RUN, "") == RUN
    assert chosen_run(None, "kafka://a:1") == SERVED
