"""Runs the command as a user does: another process, its exit code and its output."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from msgspec import Struct

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 640


class Ran(Struct, frozen=True):
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """Return the result of `--output json`."""
        found: dict[str, Any] = json.loads(self.out)
        return found


def muster(*words: str | Path, cwd: Path = ROOT, **environ: str) -> Ran:
    """Run the command with these arguments."""
    done = subprocess.run(
        [sys.executable, "-m", "muster", *map(str, words)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environ,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def complaint(ran: Ran, code: int) -> str:
    """Return the single line on standard error of a failed command, without log lines (INFO)."""
    assert ran.code == code, ran
    (line,) = (line for line in ran.err.splitlines() if " INFO muster." not in line)
    return line


def run_of_examples(folder: Path) -> Path:
    """Return the directory of a finished run of the bundled manifests."""
    done = muster("run", ROOT / "examples" / "manifests", "--run-dir", folder)
    assert done.code == 0, done.err
    return folder
