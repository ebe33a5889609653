"""Shows how far a run is: a live line in a terminal, a line every few seconds elsewhere."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from muster.runner import Progress

EVERY_S = 3.0


class Display:
    """A context manager; `show` takes the newest counts."""

    def __init__(self, console: Console, title: str, quiet: bool = False) -> None:
        """`quiet` shows nothing (for output that programs read)."""
        self._console, self._title, self._quiet = console, title, quiet
        self._next_s = EVERY_S
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

    def __enter__(self) -> "Display":
        """Start the live line."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the live line away."""
        if self._bar is not None:
            self._bar.stop()

    def show(self, progress: Progress) -> None:
        """Show the newest counts."""
        waiting = progress.created - progress.bound - progress.gone
        rest = f"{max(0, waiting):,} waiting, {progress.evicted:,} evicted"
        if self._bar is not None:
            self._bar.update(self._task, completed=progress.bound, total=progress.total, rest=rest)
        elif not self._quiet and progress.seconds >= self._next_s:
            self._next_s = progress.seconds + EVERY_S
            counts = f"{progress.bound:,} of {progress.total:,} bound, {rest}"
            self._console.out(f"{progress.seconds:6.1f} s  {counts}", highlight=False)
