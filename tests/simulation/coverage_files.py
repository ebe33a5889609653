"""Coverage of many seeds, collected over test workers through files in one folder.

Workers are processes, so each chunk of seeds leaves a file; whichever chunk finds itself the last
one judges the sum. No chunk waits for another.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

FOLDER = "MUSTER_SIMULATION_COVERAGE"


def prepare() -> None:
    """Called once by the process that starts the tests; workers inherit the folder's name."""
    os.environ.setdefault(FOLDER, tempfile.mkdtemp(prefix="muster-simulation-"))


def folder() -> Path:
    """Where the chunks' files are."""
    prepare()
    return Path(os.environ[FOLDER])


def write(chunk: int, counts: Mapping[str, int]) -> None:
    """Leave one chunk's coverage, whole or not at all."""
    target = folder() / f"chunk-{chunk}.json"
    unfinished = target.with_suffix(".part")
    unfinished.write_text(json.dumps(counts))
    unfinished.replace(target)


def collected() -> tuple[int, Counter[str]]:
    """How many chunks there are, and their sum."""
    total: Counter[str] = Counter()
    files = sorted(folder().glob("chunk-*.json"))
    for file in files:
        total.update(json.loads(file.read_text()))
    return len(files), total
