"""Pods go to nodes alone that somebody has looked at."""

from muster.plugin import BindPlugin, BoundPod


class Audited(BindPlugin):
    """Nodes in `audited.txt`; whoever adds one there labels it, too."""

    wakes = ("Node/UpdateLabel",)

    async def permit(self, pod: BoundPod, node: str):
        return None if node in self._audited() else "node(s) had not been audited"

    def _audited(self):
        with open("audited.txt") as file:
            return file.read().split()
