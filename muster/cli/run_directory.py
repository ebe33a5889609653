"""The files of a run: journals, snapshots, the cluster's history, and the settings.

DIR/journals.db     every journal (SQLite)
DIR/snapshots/      folded states
DIR/history.msgpack what happened in the simulated cluster
DIR/meta.json       the command's words and settings
DIR/summary.json    its result
DIR/identity        of a live run: its name as a leader
"""

import json
import logging
import re
from itertools import count
from pathlib import Path
from typing import Any

from muster.cli.errors import UsageFault
from muster.cli.output import json_text
from shared.bus.sqlite.file import locked

JOURNALS = "journals.db"
SNAPSHOTS = "snapshots"
HISTORY = "history.msgpack"
META = "meta.json"
SUMMARY = "summary.json"
IDENTITY = "identity"
"""One process at a time has the folder open, so a run that is started again there leads at once."""
FORMAT = 1
FIRST_VERSION = "0.2.0"
"""What wrote settings without a version."""
RUNS = Path("runs")
SERVED = RUNS / "serve"
"""Where `muster serve` keeps its snapshots."""

log = logging.getLogger("muster.run")


def new_run(folder: Path, meta: dict[str, Any]) -> None:
    """Make the folder for a new run. Raises UsageFault when it holds a run already."""
    if (folder / JOURNALS).exists() or (folder / META).exists():
        raise UsageFault(f"--run-dir {folder}: holds a run already; name another folder")
    _make(folder, meta)


def continued_run(folder: Path, meta: dict[str, Any]) -> None:
    """Open the folder of a run that continues. A run of another number of shards, or of a newer
    version, whose journals this one may not be able to read, is set aside, and a new one begins.
    Raises UsageFault when the folder holds any other run.
    """
    if (folder / META).exists():
        found = {"version": FIRST_VERSION, **read_meta(folder)}
        if found == meta:
            return
        version, shards = found["version"], found.get("placements")
        if {**found, "version": meta["version"], "placements": meta["placements"]} != meta:
            raise UsageFault(f"--run-dir {folder}: holds another run; name another folder")
        if _numbers(version) > _numbers(meta["version"]):
            _set_aside(folder, f"version {version}", f"version {meta['version']}")
        elif shards != meta["placements"]:
            _set_aside(folder, f"-p {shards}", f"-p {meta['placements']}")
    _make(folder, meta)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall("[0-9]+", version)]


def _set_aside(folder: Path, before: str, now: str) -> None:
    """Rename the folder, so that its run can still be read. Its name as a leader goes with it: if a
    bind of that run is under way, it lands before the Lease expires. Raises UsageFault.
    """
    numbered = (Path(f"{folder}.{number}") for number in count(1))
    aside = next(path for path in numbered if not path.exists())
    with locked(folder / JOURNALS) as is_free:
        if not is_free:
            raise UsageFault(f"--run-dir {folder}: in use by another process; stop it first")
        try:
            folder.rename(aside)
        except OSError as error:
            raise UsageFault(
                f"--run-dir {folder}: holds a run with {before}, and cannot be renamed "
                f"({error.strerror}): name another folder"
            ) from error
    log.info("%s: a new run with %s; the one with %s is %s", folder, now, before, aside)


def _make(folder: Path, meta: dict[str, Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / META, meta)
    except OSError as error:
        raise UsageFault(f"--run-dir {folder}: {error.strerror}") from error


def existing_run(folder: Path) -> Path:
    """Return the journals' file of a finished or interrupted run. Raises UsageFault."""
    if not (folder / JOURNALS).is_file():
        raise UsageFault(f"{folder}: holds no run ({JOURNALS} is missing)")
    return folder / JOURNALS


def chosen_run(run: Path | None, bus: str) -> Path:
    """Return the named run; else the newest in runs/ (the folder of snapshots, if there is a bus),
    which is logged. Raises UsageFault.
    """
    if run is not None:
        return run
    if bus:
        return SERVED
    found = recorded_runs()
    if not found:
        raise UsageFault(f"{RUNS}: holds no run yet; name the RUN")
    newest = found[-1]
    log.info("reading the newest run, %s", newest)
    return newest


def recorded_runs() -> list[Path]:
    """Return the folders in runs/ with journals; the one written last comes last."""
    return sorted((one.parent for one in RUNS.glob(f"*/{JOURNALS}")), key=written_ns)


def written_ns(run: Path) -> int:
    """Return when the journals were last written, also to their write-ahead log."""
    files = (run / JOURNALS, run / f"{JOURNALS}-wal")
    return max(file.stat().st_mtime_ns for file in files if file.exists())


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, replacing the file."""
    path.write_text(json_text(value) + "\n", encoding="utf-8")


def read_meta(folder: Path) -> dict[str, Any]:
    """Return the run's settings. Raises UsageFault naming what is wrong with them."""
    try:
        found = json.loads((folder / META).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageFault(f"{folder / META}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageFault(f"{folder / META}: cannot be decoded: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UsageFault(f"{folder / META}: format is not {FORMAT}: written by another version")
    return found
