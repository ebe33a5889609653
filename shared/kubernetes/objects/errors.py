"""The error for input that cannot be used: a file or row, a field, and the rule it broke."""

import reprlib

from shared.model.text import QUOTED_MAX, one_line, quoted
from shared.model.world import Rejection


class _Brief(reprlib.Repr):
    """Formats no more of a value than it shows, however large and deep the value is."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxdict = self.maxlist = self.maxtuple = 16
        self.maxstring = self.maxlong = self.maxother = 2 * QUOTED_MAX


_brief = _Brief()


def shown(value: object) -> str:
    """Return a value from outside for a message, quoted as in Python and shortened."""
    if isinstance(value, str):
        return repr(quoted(value))
    try:
        return quoted(_brief.repr(value))
    except ValueError:  # int refuses to format thousands of digits
        return "a number of very many digits"


class WorldError(ValueError):
    """Input that cannot be used. Its text is one line for people."""

    def __init__(self, what: str, field: str, rule: str) -> None:
        """`what` names the file and, if there is one, the row or object."""
        named = f"{quoted(field)}: " if field else ""
        super().__init__(one_line(f"{what}: {named}{rule}"))
        self.rejection = Rejection(what, field, rule)
