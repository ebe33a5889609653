"""Writes each bind to a file, before and after it; pods without a team are not bound."""

from muster.plugin import BindPlugin, BoundPod


class Ledger(BindPlugin):
    """Writes a line before each bind and one after it; rejects pods without a team."""

    reads = ("labels.team",)

    async def pre_bind(self, pod: BoundPod, node: str):
        if not pod["labels.team"]:
            return "nobody pays for the pod"
        self._write("wants", pod, node)
        return None

    async def post_bind(self, pod: BoundPod, node: str):
        self._write("has", pod, node)

    def _write(self, what: str, pod: BoundPod, node: str):
        with open("ledger.txt", "a") as file:
            file.write(f"{pod.name} {what} {node}\n")
