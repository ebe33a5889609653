"""The port of a flood: where its actions go, and where its answers come from."""

from typing import Protocol

from muster.flood.book import Seen
from muster.flood.plan import Action
from shared.ports.bus import Bus


class Target(Protocol):
    """A cluster with a scheduler. Its clock starts with `start`."""

    @property
    def started_ms(self) -> int:
        """Return when the clock started, in ms since the epoch."""
        ...

    @property
    def reader(self) -> Bus | None:
        """Return a bus with the journals; None: they are out of reach."""
        ...

    def start(self) -> None:
        """Start the clock."""
        ...

    def now_ms(self) -> float:
        """Return the time since the start."""
        ...

    def act(self, action: Action) -> None:
        """Carry out an action, or begin to; never wait for it."""
        ...

    def seen(self) -> Seen:
        """Return what was seen since the last call. Raises the error that ended the target."""
        ...

    async def settle(self) -> None:
        """Wait for what follows the last bind."""
        ...

    def processor_s(self) -> float | None:
        """Return the processor time used so far; None if it is unknown."""
        ...

    def api_writes(self) -> int | None:
        """Return the scheduler's writes to the API so far; None if they are unknown."""
        ...
