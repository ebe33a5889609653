"""The clock port: the only place where time enters the mesh."""

from typing import Protocol


class Clock(Protocol):
    """Wall time in milliseconds. It may jump; the machine bounds what a jump can do."""

    def now_ms(self) -> int:
        """Return milliseconds since an epoch that is the same for all services."""
        ...
