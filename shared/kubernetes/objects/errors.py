"""The one way in which a world is refused: a file or row, a field, and the rule it broke."""

import reprlib

from shared.model.text import QUOTED_MAX, one_line, quoted
from shared.model.world import Rejection


class _Brief(reprlib.Repr):
    """Looks at no more of a value than is shown of it, however large and deep it is."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxdict = self.maxlist = self.maxtuple = 16
        self.maxstring = self.maxlong = self.maxother = 2 * QUOTED_MAX


_brief = _Brief()


def shown(value: object) -> str:
    """A value from outside, quoted as in Python, as part of a message of ours."""
    if isinstance(value, str):
        return repr(quoted(value))
    try:
        return quoted(_brief.repr(value))
    except ValueError:  # a number of thousands of digits has no text
        return "a number of very many digits"


class WorldError(ValueError):
    """Input that cannot be used. Its text is one line, meant for people."""

    def __init__(self, what: str, field: str, rule: str) -> None:
        """`what` names the file and, where there is one, the row or the object."""
        named = f"{quoted(field)}: " if field else ""
        super().__init__(one_line(f"{what}: {named}{rule}"))
        self.rejection = Rejection(what, field, rule)
