"""Coverage of many seeds, collected over test workers through files in one folder.

Workers are processes, so each chunk of seeds leaves a file; whichever chunk finds itself the last
one judges the sum. No chunk waits for another.
"""

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

FOLDER = "MUSTER_SIMULATION_COVERAGE"


def prepare() -> None:
    """Called once by the process that starts the tests; workers inherit the folder's name."""
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="muster-simulation-")


def folder() -> Path:
    """Where the chunks' files are."""
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


def report(say: Callable[[str], None]) -> None:
    """Print what was collected, if anything, and clear it away."""
    done, total = collected()
    if done:
        from muster.simulation import coverage

        say("")
        seconds = total["milliseconds"] / 1000
        each_s = seconds / max(1, total["seeds"])
        say(f"simulation: {total['seeds']} seeds, {total['pods']} pods, {total['records']} records")
        say(f"{seconds:.0f} s in all, {each_s:.2f} s a seed")
        for line in coverage.table(total):
            say(line)
    shutil.rmtree(folder(), ignore_errors=True)
