"""The files of a run: who may read them, and the message when the disk is full."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.console import ROOT, TIMEOUT_S, Ran, complaint

FLOOD = "flood:pods=300,nodes=20"


def run_after(shell: str, folder: Path, *words: str) -> Ran:
    """Run `muster run` after a shell command, such as a limit."""
    command = [sys.executable, "-m", "muster", "run", FLOOD, "--run-dir", str(folder), *words]
    done = subprocess.run(
        ["/bin/sh", "-c", f'{shell} && exec "$@"', "sh", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
def test_other_users_cannot_read_a_run(tmp_path):
    given = tmp_path / "given"
    given.mkdir(mode=0o755)
    ran = run_after("umask 0", given / "made" / "run")
    assert ran.code == 0, ran.err
    modes = {path: path.stat().st_mode & 0o777 for path in given.rglob("*")}
    assert {"journals.db", "meta.json", "history.msgpack"} <= {path.name for path in modes}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert given.stat().st_mode & 0o777 == 0o755


@pytest.mark.slow
def test_a_full_disk_gets_one_line(tmp_path):
    folder = tmp_path / "run"
    # Blocks of 512 bytes: room for meta.json. The journals are in memory.
    ran = run_after("ulimit -f 4", folder, "--bus", "memory", "--output", "json")
    text = complaint(ran, 1)
    assert text.startswith(f"muster: {folder}/")
    assert text.endswith("cannot be written: File too large; start again when it can be")
