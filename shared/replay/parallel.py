"""Several replays side by side, each in a process: a replay reads recorded input only.

The parts of a run are cut into pieces at their snapshots: a piece begins at one, and ends when its
state is seen to be the next one's, so that the pieces of a part prove as much as the whole. They
are taken one after the other by as many processes as there are cores, the dearest first; where any
piece is not as it should be, its part is replayed whole, to tell of the first difference. Where
processes cannot be had, or would not pay, all are replayed in this one. What comes back is the same
either way, in the order of the parts. It reads only.
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
from shared.model.ids import service_of
from shared.ports.bus import Bus, JournalName
from shared.ports.snapshots import SnapshotStore
from shared.replay.read_once import KEPT_BYTES_MAX, ReadOnceBus
from shared.replay.replay import ReplayReport, replay
from shared.replay.start_points import beginnings

PROCESSES_MAX = 8
LOOK_S = 1.0
TICKET = Struct("=q")  # the number of a part
DEAREST = "placement"  # its journals are begun first, so that none is left alone at the end

Numbered = list[tuple[int, ReplayReport]]


@dataclass(frozen=True)
class Part:
    """One replay: a journal, from its beginning or from the snapshot at `start`, to its end or to
    the snapshot at `stop`; `length` = positions, if that is known.
    """

    journal: str
    start: int | None = None
    stop: int | None = None
    length: int = 0


@dataclass(frozen=True)
class Source:
    """How a process gets at the run: `opened` gives a client and the snapshots, for as long as the
    context lasts; `core_of` gives a journal's core.
    """

    opened: Callable[[], AbstractAsyncContextManager[tuple[Bus, SnapshotStore]]]
    core_of: Callable[[str], Core[Any]]


class ReplayLost(Exception):
    """A replay's process was ended from outside, by the kernel for its memory for example."""


def processes_for(parts: Sequence[Part]) -> int:
    """One for each core that this process may use, but not more than parts: each holds a state."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    return max(1, min(cores, len(parts), PROCESSES_MAX))


def replay_all(source: Source, parts: Sequence[Part], processes: int) -> list[ReplayReport]:
    """The reports of the parts, in their order. Raises what opening raises, and ReplayLost."""
    if processes <= 1:
        return _reports(source, parts, 1)
    cut = asyncio.run(pieces(source, parts))
    found = iter(_reports(source, list(chain.from_iterable(cut)), processes))
    joined = [_joined([next(found) for _ in one]) for one in cut]
    again = [part for part, report in zip(parts, joined, strict=True) if report is None]
    whole = iter(_reports(source, again, min(processes, len(again))) if again else ())
    return [next(whole) if report is None else report for report in joined]


async def pieces(source: Source, parts: Sequence[Part]) -> list[list[Part]]:
    """Each part cut at the snapshots within it. Raises what opening raises."""
    cut = []
    async with source.opened() as (bus, store):
        for part in parts:
            first, end = await bus.bounds(JournalName(part.journal))
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
    """What the whole would have said; None if that is not known."""
    if len(reports) == 1:
        return reports[0]
    if not all(report.ok for report in reports):
        return None
    # A process that died with a snapshot just made never said what it was of: then the piece that
    # was to end there went on to the end.
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
    """What all processes know; `parts` in the order in which they are taken."""

    source: Source
    parts: Sequence[Part]
    processes: int


def _in_processes(work: _Work) -> Numbered:
    # Forked, because a child that starts anew would spend longer on its imports than most replays.
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
            tickets.seek(0, os.SEEK_END)  # after an error: nobody takes another
    return found


_mine: tuple[_Work, int] | None = None


def _begin(work: _Work, tickets: int, parent: int) -> None:
    """A child's first lines."""
    global _mine
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent says that it was interrupted
    gc.freeze()
    _mine = work, tickets


def _end_with(parent: int) -> None:
    """A child whose parent was killed would wait for ever: it holds the pipe of its work, too."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)


def _share() -> Numbered:
    """In a child: parts, as long as there are any that nobody has taken."""
    assert _mine is not None
    work, tickets = _mine
    return _in_this_one(work, partial(_take, tickets, len(work.parts)))


def _take(tickets: int, end: int) -> int:
    """The number of a part that nobody else gets; `end` if there is none.

    The children share the file's position, which each read moves on in the kernel. A lock in
    shared memory would do as well, until a process is killed while it holds it.
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
