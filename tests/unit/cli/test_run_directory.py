"""The folder of a run: created, continued in, and refused with one line."""

import os
from pathlib import Path

import pytest

from muster.cli.errors import UsageFault
from muster.cli.run_directory import continued_run, new_run, read_meta

META = {"format": 1, "live": True, "placements": 1}


def test_a_run_continues_in_its_folder(tmp_path):
    folder = tmp_path / "a" / "b"
    for _start in range(2):
        continued_run(folder, META)
    assert read_meta(folder) == META


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"format": 1, "live": true, "placements": 3}', "holds another run"),
        ('{"format": 2}', "meta.json: format is not 1: written by another version"),
        ('{"format"', "meta.json: cannot be decoded"),
    ],
)
def test_no_run_continues_in_the_folder_of_another(tmp_path, text, line):
    (tmp_path / "meta.json").write_text(text)
    with pytest.raises(UsageFault, match=line):
        continued_run(tmp_path, META)
    assert (tmp_path / "meta.json").read_text() == text


@pytest.mark.parametrize("make", [new_run, continued_run])
def test_a_folder_that_cannot_be_made_or_written_is_named(tmp_path, make):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageFault, match=f"--run-dir {tmp_path}/file/run: Not a directory"):
        make(tmp_path / "file" / "run", META)
    # A link to nowhere stands for a folder without permission, which root would have.
    os.symlink(Path("/nowhere/meta.json"), tmp_path / "meta.json")
    with pytest.raises(UsageFault, match=f"--run-dir {tmp_path}: No such file"):
        make(tmp_path, META)
