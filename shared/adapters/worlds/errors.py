"""The one way in which a world is refused: a file or row, a field, and the rule it broke."""

from shared.model.text import one_line
from shared.model.world import Rejection


class WorldError(ValueError):
    """Input that cannot be used. Its text is one line, meant for people."""

    def __init__(self, what: str, field: str, rule: str) -> None:
        """`what` names the file and, where there is one, the row or the object."""
        named = f"{field}: " if field else ""
        super().__init__(one_line(f"{what}: {named}{rule}"))
        self.rejection = Rejection(what, field, rule)
