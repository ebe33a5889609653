"""The folder of a run: created, continued in, and refused with one line."""

import logging
import os
from contextlib import closing
from pathlib import Path

import pytest

from muster.cli.errors import UsageFault
from muster.cli.run_directory import continued_run, new_run, read_meta
from shared.bus.sqlite.bus import SqliteLog

META = {"format": 1, "live": True, "version": "0.3.0", "placements": 1}


def test_a_run_continues_in_its_folder(tmp_path):
    folder = tmp_path / "a" / "b"
    for _start in range(2):
        continued_run(folder, META)
    assert read_meta(folder) == META


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"format": 1, "world": ["openb:"], "placements": 3}', "holds another run"),
        ('{"format": 2}', "meta.json: format is not 1: written by another version"),
        ('{"format"', "meta.json: cannot be decoded"),
    ],
)
def test_no_run_continues_in_the_folder_of_another(tmp_path, text, line):
    (tmp_path / "meta.json").write_text(text)
    with pytest.raises(UsageFault, match=line):
        continued_run(tmp_path, META)
    assert (tmp_path / "meta.json").read_text() == text


def test_a_run_of_another_number_of_shards_is_set_aside_whole(tmp_path, caplog):
    caplog.set_level(logging.INFO, "muster.run")
    folder = tmp_path / "live"
    for shards in (2, 8, 3):
        continued_run(folder, {**META, "placements": shards})
        (folder / "journals.db").write_text(f"of {shards}")
    found = {path.name: (path / "journals.db").read_text() for path in tmp_path.iterdir()}
    assert found == {"live.1": "of 2", "live.2": "of 8", "live": "of 3"}
    assert [read_meta(tmp_path / name)["placements"] for name in sorted(found)] == [3, 2, 8]
    assert caplog.messages[-1] == f"{folder}: a new run with -p 3; the one with -p 8 is {folder}.2"


def test_a_run_of_a_newer_version_is_set_aside_and_one_of_an_older_continues(tmp_path, caplog):
    caplog.set_level(logging.INFO, "muster.run")
    folder = tmp_path / "live"
    versions = ("0.3.0", "0.10.0", "0.9.1")
    for version in versions:
        continued_run(folder, {**META, "version": version})
        with (folder / "journals.db").open("a") as journals:
            journals.write(f"by {version};")
    found = {path.name: (path / "journals.db").read_text() for path in tmp_path.iterdir()}
    assert found == {"live.1": "by 0.3.0;by 0.10.0;", "live": "by 0.9.1;"}
    assert read_meta(folder)["version"] == "0.9.1"
    assert caplog.messages == [
        f"{folder}: a new run with version 0.9.1; the one with version 0.10.0 is {folder}.1"
    ]


def test_a_run_that_names_no_version_continues(tmp_path):
    (tmp_path / "meta.json").write_text('{"format": 1, "live": true, "placements": 1}')
    continued_run(tmp_path, META)
    assert read_meta(tmp_path) == META


def test_a_run_that_goes_on_is_not_set_aside(tmp_path):
    folder = tmp_path / "live"
    continued_run(folder, META)
    with (
        closing(SqliteLog(folder / "journals.db", exclusive=True)),
        pytest.raises(UsageFault, match=f"--run-dir {folder}: in use by another process"),
    ):
        continued_run(folder, {**META, "placements": 8})
    assert [path.name for path in tmp_path.iterdir()] == ["live"]


def test_a_folder_that_cannot_be_renamed_is_named(tmp_path, monkeypatch):
    """As a volume that is mounted there."""
    monkeypatch.chdir(tmp_path)
    continued_run(Path(), META)
    words = (
        r"holds a run with -p 1, and cannot be renamed \(Device or resource busy\): name another"
    )
    with pytest.raises(UsageFault, match=words):
        continued_run(Path(), {**META, "placements": 8})
    assert read_meta(tmp_path) == META


@pytest.mark.parametrize("make", [new_run, continued_run])
def test_a_folder_that_cannot_be_made_or_written_is_named(tmp_path, make):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageFault, match=f"--run-dir {tmp_path}/file/run: Not a directory"):
        make(tmp_path / "file" / "run", META)
    # A link to nowhere stands for a folder without permission, which root would have.
    os.symlink(Path("/nowhere/meta.json"), tmp_path / "meta.json")
    with pytest.raises(UsageFault, match=f"--run-dir {tmp_path}: No such file"):
        make(tmp_path, META)
