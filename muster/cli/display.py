"""Shows the progress of a run: lines that are redrawn in a terminal, a line every few seconds
elsewhere (for a live cluster log lines). It writes to standard error, JSON to standard output, and
decides nothing.
"""

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TextIO

from muster.app.live import Standing, line_of, summary_of
from muster.app.runner import PLACING, Progress
from muster.cli.output import print_json_line
from muster.cli.terminal import duration
from shared.model.text import counted, one_line
from shared.scheduling.api.custom.failures import failures

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress as Bar

    from muster.flood.player import Progress as FloodProgress
    from muster.mix.player import Progress as MixProgress

EVERY_S = 3.0
WORLD_S_SHOWN = 60.0
"""World time is shown where it is this much ahead of real time."""
LINE_MAX = 160

log = logging.getLogger("muster.run")


def shorten(line: str) -> str:
    """Return the line with at most LINE_MAX characters."""
    return line if len(line) <= LINE_MAX else f"{line[: LINE_MAX - 3]}..."


class Lines:
    """A context manager; the redrawn lines are removed at its end."""

    def __init__(self, out: TextIO, renewed: "Bar | Live | None") -> None:
        self._out, self._renewed = out, renewed
        self._next_s = 0.0

    def __enter__(self) -> Self:
        """Start drawing in the terminal."""
        if self._renewed is not None:
            self._renewed.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Remove the drawn lines."""
        if self._renewed is not None:
            self._renewed.stop()

    def _print(self, seconds: float, text: str) -> None:
        """Print one more line; the next is due a few seconds later."""
        self._next_s = seconds + EVERY_S
        print(f"{seconds:6.1f} s  {one_line(text)}", file=self._out)


class RunDisplay(Lines):
    """The progress of a played world; `show` takes the newest counts."""

    def __init__(self, out: TextIO, title: str, quiet: bool = False) -> None:
        """`quiet` shows nothing (for output that programs read)."""
        self._quiet = quiet
        self._bar = _bar(out) if out.isatty() and not quiet else None
        if self._bar is not None:
            self._task = self._bar.add_task(title, total=None, rest="")
        super().__init__(out, self._bar)
        self._next_s = EVERY_S

    def show(self, progress: Progress) -> None:
        """Show the newest counts."""
        waiting = progress.created - progress.bound - progress.gone
        rest = f"{max(0, waiting):,} waiting, {progress.evicted:,} evicted"
        if progress.gone:
            rest += f", {progress.gone:,} gone"
        if failed := failures():
            rest += f", plugin failures: {sum(failure.count for failure in failed):,}"
        if progress.world_s > WORLD_S_SHOWN + progress.seconds:
            rest += f", {duration(progress.world_s)} of world time"
        if progress.phase != PLACING:
            rest += f"; {progress.phase}"
        if self._bar is not None:
            done = progress.bound + progress.gone
            self._bar.update(self._task, completed=done, total=progress.total, rest=rest)
        elif not self._quiet and progress.seconds >= self._next_s:
            counts = f"{progress.bound:,} of {progress.total:,} bound, {rest}"
            self._print(progress.seconds, counts)


class FloodDisplay(Lines):
    """The progress of a flood, with its rate and the time left."""

    def __init__(self, out: TextIO, title: str, quiet: bool = False) -> None:
        """`quiet` shows nothing (for output that programs read)."""
        self._quiet = quiet
        self._bar = _bar(out, "bound") if out.isatty() and not quiet else None
        if self._bar is not None:
            self._task = self._bar.add_task(title, total=None, rest="")
        super().__init__(out, self._bar)
        self._next_s = EVERY_S

    def show(self, progress: "FloodProgress") -> None:
        """Show the newest counts."""
        rest = f"{progress.waiting:,} waiting, {progress.per_second:,.0f} pods/s"
        if progress.left_s is not None:
            rest += f", {duration(progress.left_s)} left"
        if self._bar is not None:
            self._bar.update(self._task, completed=progress.bound, total=progress.total, rest=rest)
        elif not self._quiet and progress.seconds >= self._next_s:
            self._print(progress.seconds, f"{progress.bound:,} of {progress.total:,} bound, {rest}")


class MixDisplay(Lines):
    """The progress of a mix of workloads on virtual time."""

    def __init__(self, out: TextIO, title: str, quiet: bool = False) -> None:
        """`quiet` shows nothing (for output that programs read)."""
        self._quiet, self._began_s = quiet, time.monotonic()
        self._bar = _bar(out, "s of the mix") if out.isatty() and not quiet else None
        if self._bar is not None:
            self._task = self._bar.add_task(title, total=None, rest="")
        super().__init__(out, self._bar)
        self._next_s = EVERY_S

    def show(self, progress: "MixProgress") -> None:
        """Show how far it is."""
        seconds, horizon_s = time.monotonic() - self._began_s, progress.horizon_ms / 1000
        now_s = progress.now_ms / 1000
        rest = f"{progress.running:,} pods run, {progress.waiting:,} wait"
        if self._bar is not None:
            self._bar.update(self._task, completed=int(now_s), total=int(horizon_s), rest=rest)
        elif not self._quiet and seconds >= self._next_s:
            self._print(seconds, f"{duration(now_s)} of {duration(horizon_s)}, {rest}")


def _bar(out: TextIO, done: str = "bound or gone") -> "Bar":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(done),
        TextColumn("{task.fields[rest]}"),
        TimeElapsedColumn(),
        console=Console(file=out),
        transient=True,
    )


class JsonLines:
    """The state of a run on a live cluster as lines of JSON on standard output."""

    def __init__(self, run: Path) -> None:
        """`run` is the folder of the run."""
        self._run = run
        self._last = Standing()
        self._next_s = 0.0

    def show(self, standing: Standing) -> None:
        """Print the state if it changed, every few seconds at most."""
        same = replace(self._last, seconds=standing.seconds, bound_per_s=standing.bound_per_s)
        if standing.seconds >= self._next_s and standing != same:
            self.print(standing)

    def print(self, standing: Standing) -> None:
        """Print the state."""
        self._last, self._next_s = standing, standing.seconds + EVERY_S
        print_json_line(summary_of(standing, self._run, time.time_ns() // 1_000_000))


class LiveDisplay(Lines):
    """The state of a run on a live cluster; `show` takes it."""

    def __init__(self, out: TextIO) -> None:
        """Show a line that is renewed in a terminal, and lines of the log elsewhere."""
        self._last: list[str] = []
        self._live: Live | None = None
        if out.isatty():
            from rich.console import Console
            from rich.live import Live as Renewed

            self._live = Renewed(console=Console(file=out), transient=True, auto_refresh=False)
        super().__init__(out, self._live)

    def show(self, standing: Standing) -> None:
        """Show the state if it is time to and something changed."""
        reasons = [f"{counted(pods, 'pod')}: {one_line(text)}" for pods, text in standing.reasons]
        if self._live is not None:
            from rich.text import Text

            lines = [f"{standing.seconds:6.1f} s  {line_of(standing)}", *reasons]
            self._live.update(Text("\n".join(lines), overflow="ellipsis"), refresh=True)
            return
        lines = [line_of(standing), *(f"  {reason}" for reason in reasons)]
        if standing.seconds < self._next_s or lines == self._last:
            return
        self._last, self._next_s = lines, standing.seconds + EVERY_S
        for line in lines:
            log.info("%s", shorten(line))
