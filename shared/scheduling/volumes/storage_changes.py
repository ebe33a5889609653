"""Which claims and nodes may have other volumes than before: what counts of volumes look at again.

Not state: forgetting it costs work and never changes a result.
"""

KEPT_MAX = 65_536

CLAIM, NODE = "claim", "node"
Touched = tuple[str, str, str]
"""CLAIM, its namespace and name; or NODE, nothing, and its name."""


class StorageChanges:
    """In the order of their changes; only the last `KEPT_MAX` are kept."""

    def __init__(self) -> None:
        self._first = 0
        self._touched: list[Touched] = []

    @property
    def position(self) -> int:
        """Where the next change will stand."""
        return self._first + len(self._touched)

    def claim(self, namespace: str, name: str) -> None:
        """What stands behind a claim may be something else now."""
        self._add((CLAIM, namespace, name))

    def node(self, name: str) -> None:
        """Other volumes may be attached to a node, whatever its pods use."""
        self._add((NODE, "", name))

    def everything(self) -> None:
        """Nothing is known to be as it was."""
        self._first = self.position + 1
        self._touched = []

    def since(self, position: int) -> list[Touched] | None:
        """What changed from `position` on (with repeats), None when that is not known."""
        if position < self._first:
            return None
        return self._touched[position - self._first :]

    def _add(self, touched: Touched) -> None:
        if len(self._touched) >= 2 * KEPT_MAX:
            self._first += KEPT_MAX
            self._touched = self._touched[KEPT_MAX:]
        self._touched.append(touched)
