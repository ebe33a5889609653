"""Named points at which a process may die; simulation and the real-process tests crash at them.

Production passes `no_probe`, a function that returns at once.
"""

from collections.abc import Callable
from enum import StrEnum


class CrashPoint(StrEnum):
    """The points before and after each action of the runtime that is visible outside."""

    BEFORE_CONSUME = "before-consume"
    AFTER_CONSUME = "after-consume"
    BEFORE_DECIDE = "before-decide"
    AFTER_DECIDE = "after-decide"
    BEFORE_APPEND = "before-append"
    AFTER_APPEND = "after-append"
    BEFORE_ACKNOWLEDGE = "before-acknowledge"
    AFTER_ACKNOWLEDGE = "after-acknowledge"
    BEFORE_EFFECT = "before-effect"
    AFTER_EFFECT = "after-effect"
    BEFORE_OUTCOME = "before-outcome"
    AFTER_OUTCOME = "after-outcome"
    BEFORE_SNAPSHOT = "before-snapshot"
    AFTER_SNAPSHOT = "after-snapshot"
    BEFORE_CUT = "before-cut"
    AFTER_CUT = "after-cut"


Probe = Callable[[CrashPoint], None]


def no_probe(_point: CrashPoint) -> None:
    """Do nothing: in production no process dies on purpose."""
