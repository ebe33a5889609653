"""Shows how far a run is: lines that renew themselves in a terminal, a line every few seconds
elsewhere. It writes to standard error and decides nothing.
"""

from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from muster.app.live import Standing, line_of
from muster.app.runner import Progress
from shared.model.text import one_line

EVERY_S = 3.0


class Lines:
    """A context manager; what `renewed` shows is taken away at its end."""

    def __init__(self, console: Console, renewed: Bar | Live | None) -> None:
        self._console, self._renewed = console, renewed
        self._next_s = 0.0

    def __enter__(self) -> Self:
        """Take lines of the terminal."""
        if self._renewed is not None:
            self._renewed.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Give the lines back."""
        if self._renewed is not None:
            self._renewed.stop()

    def _print(self, seconds: float, text: str) -> None:
        """One more line; the next is due a few seconds later."""
        self._next_s = seconds + EVERY_S
        self._console.out(f"{seconds:6.1f} s  {one_line(text)}", highlight=False)


class RunDisplay(Lines):
    """Of a world that is played; `show` takes the newest counts."""

    def __init__(self, console: Console, title: str, quiet: bool = False) -> None:
        """`quiet` shows nothing (for output that programs read)."""
        self._quiet = quiet
        self._bar: Bar | None = None
        if console.is_terminal and not quiet:
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("bound"),
                TextColumn("{task.fields[rest]}"),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task(title, total=None, rest="")
        super().__init__(console, self._bar)
        self._next_s = EVERY_S

    def show(self, progress: Progress) -> None:
        """Show the newest counts."""
        waiting = progress.created - progress.bound - progress.gone
        rest = f"{max(0, waiting):,} waiting, {progress.evicted:,} evicted"
        if self._bar is not None:
            self._bar.update(self._task, completed=progress.bound, total=progress.total, rest=rest)
        elif not self._quiet and progress.seconds >= self._next_s:
            counts = f"{progress.bound:,} of {progress.total:,} bound, {rest}"
            self._print(progress.seconds, counts)


class LiveDisplay(Lines):
    """Of a live cluster; `show` takes how things stand."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        """`quiet` shows nothing (for output that programs read)."""
        self._quiet = quiet
        self._last = ""
        self._live: Live | None = None
        if console.is_terminal and not quiet:
            self._live = Live(console=console, transient=True, auto_refresh=False)
        super().__init__(console, self._live)

    def show(self, standing: Standing) -> None:
        """Show it, if it is time to and something changed."""
        reasons = [f"{pods:,} pods: {one_line(text)}" for pods, text in standing.reasons]
        if self._live is not None:
            lines = [f"{standing.seconds:6.1f} s  {line_of(standing)}", *reasons]
            self._live.update(Text("\n".join(lines), overflow="ellipsis"), refresh=True)
            return
        text = "; ".join([line_of(standing), *reasons])
        if self._quiet or standing.seconds < self._next_s or text == self._last:
            return
        self._last = text
        self._print(standing.seconds, text)
