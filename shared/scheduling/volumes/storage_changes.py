"""Claims and nodes whose volumes may have changed, for volume counts to refresh.

Not state: forgetting it costs work and never changes a result.
"""

KEPT_MAX = 65_536

CLAIM, NODE = "claim", "node"
Touched = tuple[str, str, str]
"""(CLAIM, namespace, name) or (NODE, "", name)."""


class StorageChanges:
    """Changes in order; only the last `KEPT_MAX` are kept."""

    def __init__(self) -> None:
        self._first = 0
        self._touched: list[Touched] = []

    @property
    def position(self) -> int:
        """Return the position of the next change."""
        return self._first + len(self._touched)

    def claim(self, namespace: str, name: str) -> None:
        """Note that a claim may have another volume now."""
        self._add((CLAIM, namespace, name))

    def node(self, name: str) -> None:
        """Note that other volumes may be attached to a node."""
        self._add((NODE, "", name))

    def everything(self) -> None:
        """Note that everything may have changed."""
        self._first = self.position + 1
        self._touched = []

    def since(self, position: int) -> list[Touched] | None:
        """Return the changes from `position` on (with repeats), None if unknown."""
        if position < self._first:
            return None
        return self._touched[position - self._first :]

    def _add(self, touched: Touched) -> None:
        if len(self._touched) >= 2 * KEPT_MAX:
            self._first += KEPT_MAX
            self._touched = self._touched[KEPT_MAX:]
        self._touched.append(touched)
