"""Reports of tests for the summary at the end: files in one folder, from every test worker.

pytest captures what a test prints, and workers are processes. So a test leaves a file, and the
process that started the workers reads them all. No worker waits for another.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = "MUSTER_COLLECTED"


def prepare() -> None:
    """Called once by the process that starts the tests; workers inherit the folder's name."""
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="muster-collected-")


def folder() -> Path:
    """Where the files are."""
    return Path(os.environ[FOLDER])


def leave(kind: str, name: str, value: Any) -> None:
    """Leave one file, whole or not at all."""
    target = folder() / f"{kind}-{name}.json"
    unfinished = target.with_suffix(".part")
    unfinished.write_text(json.dumps(value))
    unfinished.replace(target)


def left(kind: str) -> Iterator[tuple[str, Any]]:
    """Name and value of what was left of a kind, by name."""
    for file in sorted(folder().glob(f"{kind}-*.json")):
        yield file.stem.removeprefix(f"{kind}-"), json.loads(file.read_text())


def clear() -> None:
    """Delete the reports after the summary."""
    shutil.rmtree(folder(), ignore_errors=True)
