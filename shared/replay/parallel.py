"""Runs several replays in parallel, each in a process.

The parts of a run are cut into pieces at their snapshots: a piece begins at a snapshot and ends
when its state equals the next one's, so the pieces of a part prove as much as the whole. As many
processes as cores take pieces one by one, the most expensive first. If a piece fails, its part is
replayed whole, to report the first difference. If processes are unavailable or would not pay, all
parts are replayed in this process. The reports are the same either way, in the order of the parts.
"""

import asyncio
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, pairwise
from struct import Struct
from tempfile import TemporaryFile
from typing import Any

from shared.machine.core import Core
from shared.model.ids import JournalName, Position, service_of
from shared.ports.bus import Bus
from shared.ports.snapshots import SnapshotStore
from shared.replay.read_once import KEPT_BYTES_MAX, ReadOnceBus
from shared.replay.replay import ReplayReport, replay
from shared.replay.start_points import beginnings

PROCESSES_MAX = 8
LOOK_S = 1.0
TICKET = Struct("=q")  # the number of a part
DEAREST = "placement"  # its journals start first, so that none is left alone at the end

Numbered = list[tuple[int, ReplayReport]]


@dataclass(frozen=True)
class Part:
    """One replay: a journal, from its beginning or the snapshot at `start`, to its end or the
    snapshot at `stop`; `length`: positions, if known.
    """

    journal: JournalName
    start: Position | None = None
    stop: Position | None = None
    length: int = 0


@dataclass(frozen=True)
class Source:
    """How a process opens the run: `opened` gives a client and the snapshots for the context's
    duration; `core_of` gives a journal's core.
    """

    opened: Callable[[], AbstractAsyncContextManager[tuple[Bus, SnapshotStore]]]
    core_of: Callable[[str], Core[Any]]


class ReplayLost(Exception):
    """A replay's process was killed, for example by the kernel for its memory."""


def processes_for(parts: Sequence[Part]) -> int:
    """Return the number of processes: one for each core that this process may use, at most one per
    part, as each holds a state.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    return max(1, min(cores, len(parts), PROCESSES_MAX))


def replay_all(source: Source, parts: Sequence[Part], processes: int) -> list[ReplayReport]:
    """Return the reports of the parts, in order. Raises the errors of opening, and ReplayLost."""
    if processes <= 1:
        return _reports(source, parts, 1)
    cut = asyncio.run(pieces(source, parts))
    found = iter(_reports(source, list(chain.from_iterable(cut)), processes))
    joined = [_joined([next(found) for _ in one]) for one in cut]
    failed = [part for part, report in zip(parts, joined, strict=True) if report is None]
    whole = iter(_reports(source, failed, min(processes, len(failed))) if failed else ())
    return [next(whole) if report is None else report for report in joined]


async def pieces(source: Source, parts: Sequence[Part]) -> list[list[Part]]:
    """Return each part cut at its snapshots. Raises the errors of opening."""
    cut = []
    async with source.opened() as (bus, store):
        for part in parts:
            first, end = await bus.bounds(part.journal)
            sources = source.core_of(part.journal).sources
            kept = await beginnings(bus, store, part.journal, sources)
            begin = part.start
            if begin is None:
                begin = kept[0] if kept else first
            edges = [begin, *(at for at in kept if begin < at < end), end]
            found = [Part(part.journal, a, b, b - a) for a, b in pairwise(edges)]
            found[0] = replace(found[0], start=part.start)
            found[-1] = replace(found[-1], stop=None)
            cut.append(found)
    return cut


def _joined(reports: Sequence[ReplayReport]) -> ReplayReport | None:
    """Return the report of the whole part; None if it is not known."""
    if len(reports) == 1:
        return reports[0]
    if not all(report.ok for report in reports):
        return None
    # A process that died just after a snapshot never recorded its hash: then the piece that should
    # end there continues to the end.
    last = next(at for at, report in enumerate(reports) if not report.reached)
    used = reports[: last + 1]
    return replace(
        used[0],
        stop=used[-1].stop,
        reached=False,
        records=sum(report.records for report in used),
        voids=sum(report.voids for report in used),
        events=sum(report.events for report in used),
        snapshots=sum(report.snapshots for report in used),
    )


def _reports(source: Source, parts: Sequence[Part], processes: int) -> list[ReplayReport]:
    def dearness(at: int) -> tuple[bool, int]:
        return service_of(parts[at].journal) != DEAREST, -parts[at].length

    order = sorted(range(len(parts)), key=dearness)
    work = _Work(source, [parts[at] for at in order], max(processes, 1))
    found = dict(_in_processes(work) if processes > 1 else _in_this_one(work, count().__next__))
    return [found[order.index(at)] for at in range(len(parts))]


@dataclass(frozen=True)
class _Work:
    """The input of all processes; `parts` in the order in which they are taken."""

    source: Source
    parts: Sequence[Part]
    processes: int


def _in_processes(work: _Work) -> Numbered:
    # Forked, because a fresh child would spend longer on imports than most replays take.
    context = multiprocessing.get_context("fork")
    found: Numbered = []
    with (
        TemporaryFile() as tickets,
        ProcessPoolExecutor(
            work.processes, context, _begin, (work, tickets.fileno(), os.getpid())
        ) as pool,
    ):
        tickets.write(b"".join(map(TICKET.pack, range(len(work.parts)))))
        tickets.seek(0)
        try:
            for share in [pool.submit(_share) for _ in range(work.processes)]:
                found += share.result()
        except BrokenProcessPool as error:
            text = "a process of the replay was ended from outside; try --processes 1"
            raise ReplayLost(text) from error
        finally:
            tickets.seek(0, os.SEEK_END)  # after an error no process takes another part
    return found


_mine: tuple[_Work, int] | None = None


def _begin(work: _Work, tickets: int, parent: int) -> None:
    """Begin a child process."""
    global _mine
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent reports the interrupt
    gc.freeze()
    _mine = work, tickets


def _end_with(parent: int) -> None:
    """End a child whose parent was killed: it would wait for ever, as it holds the pipe of its
    work.
    """
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)


def _share() -> Numbered:
    """Replay parts in a child until all are taken."""
    assert _mine is not None
    work, tickets = _mine
    return _in_this_one(work, partial(_next_part, tickets, len(work.parts)))


def _next_part(tickets: int, end: int) -> int:
    """Return the number of the next part, which no other process gets; `end` if there is none.

    The children share the file's position, which each read advances in the kernel. A lock in shared
    memory would work too, until a process is killed while it holds it.
    """
    ticket = os.read(tickets, TICKET.size)
    return int(TICKET.unpack(ticket)[0]) if ticket else end


def _in_this_one(work: _Work, take: Callable[[], int]) -> Numbered:
    return asyncio.run(_replayed(work, take))


async def _replayed(work: _Work, take: Callable[[], int]) -> Numbered:
    found: Numbered = []
    async with work.source.opened() as (bus, store):
        reader = ReadOnceBus(bus, KEPT_BYTES_MAX // work.processes)
        while (at := take()) < len(work.parts):
            part = work.parts[at]
            core = partial(work.source.core_of, part.journal)
            found.append((at, await replay(core, reader, store, part.start, stop=part.stop)))
    return found
