"""A pod of the simulated cluster."""


class SimPod:
    """One live pod; `batch` is the index of the arrival that created it."""

    __slots__ = ("batch", "deleting", "gated", "name", "node", "revision", "uid")

    def __init__(self, uid: str, name: str, batch: int, revision: int, gated: bool) -> None:
        """Create an unassigned pod."""
        self.uid, self.name, self.batch, self.revision = uid, name, batch, revision
        self.node, self.deleting, self.gated = "", False, gated
