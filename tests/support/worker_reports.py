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
    """Create the folder; called once by the process that starts the tests. Workers inherit its
    name.
    """
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="muster-collected-")


def folder() -> Path:
    """Return the folder of the reports."""
    return Path(os.environ[FOLDER])


def leave(kind: str, name: str, value: Any) -> None:
    """Write one report, completely or not at all."""
    target = folder() / f"{kind}-{name}.json"
    unfinished = target.with_suffix(".part")
    unfinished.write_text(json.dumps(value))
    unfinished.replace(target)


def left(kind: str) -> Iterator[tuple[str, Any]]:
    """Yield the reports of a kind as (name, value), by name."""
    for file in sorted(folder().glob(f"{kind}-*.json")):
        yield file.stem.removeprefix(f"{kind}-"), json.loads(file.read_text())


def clear() -> None:
    """Delete the reports after the summary."""
    shutil.rmtree(folder(), ignore_errors=True)
