"""Shows how a live run stands: a few lines that renew themselves in a terminal, a line every few
seconds elsewhere.
"""

from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from muster.live import Standing, line_of

EVERY_S = 3.0


class LiveDisplay:
    """A context manager; `show` takes how things stand."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        """`quiet` shows nothing (for output that programs read)."""
        self._console, self._quiet = console, quiet
        self._live: Live | None = None
        self._next_s = 0.0
        self._last = ""
        if console.is_terminal and not quiet:
            self._live = Live(console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> "LiveDisplay":
        """Take the lines."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the lines back."""
        if self._live is not None:
            self._live.stop()

    def show(self, standing: Standing) -> None:
        """Show it, if it is time to."""
        reasons = [f"{pods:,} pods: {text}" for pods, text in standing.reasons]
        if self._live is not None:
            lines = [f"{standing.seconds:6.1f} s  {line_of(standing)}", *reasons]
            self._live.update(Text("\n".join(lines), overflow="ellipsis"), refresh=True)
            return
        text = "; ".join([line_of(standing), *reasons])
        if self._quiet or standing.seconds < self._next_s or text == self._last:
            return
        self._next_s, self._last = standing.seconds + EVERY_S, text
        self._console.out(f"{standing.seconds:6.1f} s  {text}", highlight=False)
