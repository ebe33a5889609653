"""Several replays side by side, each in a process: a replay reads recorded input only.

The parts of a run are taken one after the other by as many processes as there are cores, the
dearest first. Where processes cannot be had, or would not pay, all are replayed in this one. What
comes back is the same either way, in the order of the parts. It reads only.
"""

import asyncio
import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from shared.machine.core import Core
from shared.model.ids import service_of
from shared.ports.bus import Bus
from shared.ports.snapshots import SnapshotStore
from shared.replay.read_once import KEPT_BYTES_MAX, ReadOnceBus
from shared.replay.replay import ReplayReport, replay

PROCESSES_MAX = 8
DEAREST = "placement"  # its journals are begun first, so that none is left alone at the end

Numbered = list[tuple[int, ReplayReport]]


@dataclass(frozen=True)
class Part:
    """One replay: a journal, from its beginning or from the snapshot at `start`."""

    journal: str
    start: int | None = None


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
    order = sorted(range(len(parts)), key=lambda at: service_of(parts[at].journal) != DEAREST)
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
    taken = context.Value("q", 0)
    found: Numbered = []
    with ProcessPoolExecutor(work.processes, context, _begin, (work, taken)) as pool:
        try:
            for share in [pool.submit(_share) for _ in range(work.processes)]:
                found += share.result()
        except BrokenProcessPool as error:
            text = "a process of the replay was ended from outside; try --processes 1"
            raise ReplayLost(text) from error
        finally:
            taken.value = len(work.parts)  # after an error: nobody takes another
    return found


_mine: tuple[_Work, Any] | None = None


def _begin(work: _Work, taken: Any) -> None:
    """A child's first lines."""
    global _mine
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent says that it was interrupted
    gc.freeze()
    _mine = work, taken


def _share() -> Numbered:
    """In a child: parts, as long as there are any that nobody has taken."""
    assert _mine is not None
    work, taken = _mine

    def take() -> int:
        with taken.get_lock():
            taken.value += 1
            return int(taken.value) - 1

    return _in_this_one(work, take)


def _in_this_one(work: _Work, take: Callable[[], int]) -> Numbered:
    return asyncio.run(_replayed(work, take))


async def _replayed(work: _Work, take: Callable[[], int]) -> Numbered:
    found: Numbered = []
    async with work.source.opened() as (bus, store):
        reader = ReadOnceBus(bus, KEPT_BYTES_MAX // work.processes)
        while (at := take()) < len(work.parts):
            part = work.parts[at]
            core = partial(work.source.core_of, part.journal)
            found.append((at, await replay(core, reader, store, part.start)))
    return found
