"""`muster get runs` and `muster runs rm`: the folders of recorded runs."""

import json
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from muster.cli.errors import Fault, UsageFault
from muster.cli.output import Time, time_of
from muster.cli.run_directory import (
    HISTORY,
    IDENTITY,
    JOURNALS,
    META,
    SNAPSHOTS,
    SUMMARY,
    existing_run,
    read_meta,
    recorded_runs,
    written_ns,
)
from muster.cli.table import Listing
from muster.cli.terminal import duration, print_line
from shared.bus.sqlite.file import locked

FILES = {SNAPSHOTS, HISTORY, META, SUMMARY, IDENTITY}


class Run(Struct, kw_only=True):
    """A run in runs/. `world`: the words that named it, or `live`. `write_time`: when its journals
    were last written. `bound`, `waiting`: pods at its end (null: it has no summary).
    """

    run: str
    state: str
    world: str
    write_time: Time
    bound: int | None
    waiting: int | None
    size_bytes: int


def list_runs() -> Listing:
    """Return the runs in runs/; the one written last comes last."""
    now = datetime.now(UTC)
    runs = [_run(folder) for folder in recorded_runs()]
    cells = [
        {
            "RUN": one.run,
            "STATE": one.state,
            "WORLD": one.world,
            "AGE": duration(max(0.0, (now - one.write_time).total_seconds())),
            "BOUND": "" if one.bound is None else f"{one.bound:,}",
            "WAITING": "" if one.waiting is None else f"{one.waiting:,}",
            "SIZE": megabytes(one.size_bytes),
        }
        for one in runs
    ]
    return Listing(Run, runs, cells, [one.run for one in runs])


def megabytes(size_bytes: int) -> str:
    """Return a size for people."""
    return f"{size_bytes / 1e6:,.1f} MB"


def _run(folder: Path) -> Run:
    meta: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    with suppress(UsageFault):
        meta = read_meta(folder)
    with suppress(OSError, ValueError):
        summary = json.loads((folder / SUMMARY).read_bytes())
    words = meta.get("world", [])
    return Run(
        run=str(folder),
        state=_state(folder, meta, summary),
        world="live" if meta.get("live") else " ".join(map(str, words)),
        write_time=time_of(written_ns(folder) // 1_000_000),
        bound=summary.get("bound"),
        waiting=summary.get("waiting"),
        size_bytes=_size_bytes(folder),
    )


def is_live_now(folder: Path) -> bool:
    """Return whether a live run has the folder open."""
    with suppress(UsageFault):
        meta = read_meta(folder)
        return bool(meta.get("live")) and _state(folder, meta, {}) == "running"
    return False


def _state(folder: Path, meta: dict[str, Any], summary: dict[str, Any]) -> str:
    with locked(folder / JOURNALS) as is_free:
        if not is_free:
            return "running"
    if summary.get("complete"):
        return "complete"
    if not meta:
        return "unknown"
    if meta.get("live"):
        return "stopped"
    return "not complete" if summary and not summary.get("interrupted") else "interrupted"


def _size_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def remove_runs(runs: Sequence[Path], keep: int | None) -> None:
    """Delete these runs, or all in runs/ but those in use and the `keep` newest. Raises UsageFault,
    with nothing deleted, and Fault.
    """
    if bool(runs) == (keep is not None):
        raise UsageFault("runs rm: name a RUN or --keep N")
    chosen = list(dict.fromkeys(runs))
    if keep is not None:
        known = [run for run in recorded_runs() if (run / META).exists()]
        chosen = known[: max(0, len(known) - keep)]
    with ExitStack() as stack:
        for run in list(chosen):
            _check(run)
            if not stack.enter_context(locked(run / JOURNALS)):
                if keep is None:
                    raise UsageFault(f"{run}: in use by another process; stop it first")
                chosen.remove(run)
        for run in chosen:
            size = megabytes(_size_bytes(run))
            try:
                shutil.rmtree(run)
            except OSError as error:
                raise Fault(f"{run}: cannot be deleted: {error.strerror}") from error
            print_line(f"{run} deleted, {size}")


def _check(run: Path) -> None:
    """Check that the folder holds a run and nothing else. Raises UsageFault."""
    existing_run(run)
    read_meta(run)
    if run.is_symlink():
        raise UsageFault(f"{run}: is a link; name the folder")
    names = (one.name for one in run.iterdir())
    others = sorted(name for name in names if not (name in FILES or name.startswith(JOURNALS)))
    if others:
        raise UsageFault(f"{run}: also holds {others[0]}, which is not of a run; move it away")
