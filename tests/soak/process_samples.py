"""Samples of a process's resources, every few seconds, and whether they grew."""

import csv
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tests.support.server_process import ServerProcess

MIB = 1 << 20
THIRD_MIN = 10
GROWTH_MAX = {"rss_mib": (0.10, 5.0), "fds": (0.10, 5.0), "run_mib": (0.20, 5.0)}
"""The allowed growth from the first third to the last: a share of it, plus an amount."""


@dataclass(frozen=True)
class Sample:
    """One look at one process, and at the load so far."""

    time_s: float
    who: str
    rss_mib: float
    fds: int
    threads: int
    run_mib: float
    cpu_s: float
    created: int
    bound: int
    pods: int


@dataclass(frozen=True)
class Growth:
    """Return medians of the first and the last third of the checked samples."""

    who: str
    what: str
    first: float
    last: float
    is_flat: bool


def look(process: ServerProcess, folder: Path, counts: tuple[int, int, int]) -> Sample | None:
    """Return a sample; None for a process that has just been killed."""
    try:
        where = Path(f"/proc/{process.pid}")
        lines = dict(
            line.split(":", 1) for line in (where / "status").read_text("ascii").splitlines()
        )
        rss_mib = int(lines["VmRSS"].split()[0]) / 1024
        fds, cpu_s = len(os.listdir(where / "fd")), process.cpu_seconds()
    except (OSError, KeyError, RuntimeError):
        return None
    run_mib = _bytes(folder) / MIB
    now_s = time.time()
    return Sample(now_s, process.name, rss_mib, fds, int(lines["Threads"]), run_mib, cpu_s, *counts)


def _bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            # A snapshot that has just been replaced.
            continue
    return total


def write(path: Path, samples: Sequence[Sample]) -> None:
    """Write the samples as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, [one.name for one in fields(Sample)])
        rows.writeheader()
        rows.writerows({name: _short(v) for name, v in asdict(one).items()} for one in samples)


def _short(value: object) -> object:
    return round(value, 2) if isinstance(value, float) else value


def growth(samples: Sequence[Sample], warm_up_s: float) -> list[Growth]:
    """Return the growth of every warm process. Needs thirty samples of each."""
    found: list[Growth] = []
    for who in dict.fromkeys(one.who for one in samples):
        mine = [one for one in samples if one.who == who]
        warm = [one for one in mine if one.time_s >= mine[0].time_s + warm_up_s]
        third = len(warm) // 3
        if third < THIRD_MIN:
            continue
        for what, (share, more) in GROWTH_MAX.items():
            values: list[float] = [getattr(one, what) for one in warm]
            first = statistics.median(values[:third])
            last = statistics.median(values[-third:])
            found.append(Growth(who, what, first, last, last <= first * (1 + share) + more))
    return found
