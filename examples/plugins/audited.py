"""Pods go only to nodes that have been audited."""

from pathlib import Path

from muster.plugin import BindPlugin, BoundPod


class Audited(BindPlugin):
    """Takes the nodes in `audited.txt` beside this file. Label a node when you add it there."""

    wakes = ("Node/UpdateLabel",)

    async def permit(self, pod: BoundPod, node: str):
        return None if node in self._audited() else "node(s) had not been audited"

    def _audited(self):
        return (Path(__file__).parent / "audited.txt").read_text().split()
