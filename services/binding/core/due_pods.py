"""When pods continue, by pod, with quick access to the first one.

While the API is unavailable tens of thousands of pods wait for their repeat, and each turn asks for
the first one.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from shared.model.ids import PodId


class Due(dict[PodId, int]):
    """Pod -> time in ms. Set times pod by pod; removed pods are skipped when they come up."""

    __slots__ = ("_pods", "_times")

    def __init__(self, times: Iterable[tuple[PodId, int]] = ()) -> None:
        """`times` are (pod, ms)."""
        super().__init__()
        self._pods: dict[int, list[PodId]] = {}  # by time
        self._times: list[int] = []  # a heap
        for pod, at_ms in times:
            self[pod] = at_ms

    def __setitem__(self, pod: PodId, at_ms: int) -> None:
        super().__setitem__(pod, at_ms)
        pods = self._pods.get(at_ms)
        if pods is None:
            self._pods[at_ms] = [pod]
            heappush(self._times, at_ms)
        else:
            pods.append(pod)

    def dump(self) -> list[tuple[PodId, int]]:
        """Return (pod, ms), by pod."""
        return sorted(self.items())

    @classmethod
    def load(cls, saved: Iterable[tuple[PodId, int]]) -> "Due":
        """Restore what `dump` returned."""
        return cls(saved)

    def first_ms(self) -> int | None:
        """Return the first time, ms; None if empty."""
        while self._times:
            at_ms = self._times[0]
            pods = self._pods[at_ms]
            while pods and self.get(pods[-1]) != at_ms:
                pods.pop()
            if pods:
                return at_ms
            del self._pods[heappop(self._times)]
        return None

    def until(self, now_ms: int) -> list[PodId]:
        """Return the pods that are due, ascending."""
        first_ms = self.first_ms()
        if first_ms is None or first_ms > now_ms:
            return []
        times = [at_ms for at_ms in self._pods if at_ms <= now_ms]
        found = {pod for at_ms in times for pod in self._pods[at_ms] if self.get(pod) == at_ms}
        return sorted(found)
