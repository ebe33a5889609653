"""Progress of a run: the same numbers as in its summary."""

from types import SimpleNamespace
from typing import Any

from muster.app.runner import Progress, Runner
from shared.model.world import World
from shared.simulated.history import Happened


def test_a_pod_that_is_gone_is_not_bound():
    steps: list[tuple[Any, str]] = [
        ("create", ""),
        ("bind", "n"),
        ("evict", "n"),
        ("delete", "n"),
        ("create", ""),
    ]
    history = [
        Happened(number, number, kind, f"uid-{number}", node)
        for number, (kind, node) in enumerate(steps)
    ]
    cluster: Any = SimpleNamespace(history=history)
    nothing: Any = None
    world = World(name="w", nodes=(), arrivals=())
    shown: list[Progress] = []
    Runner(world, cluster, nothing, nothing, 1.0, shown.append).refresh()
    (progress,) = shown
    assert (progress.created, progress.bound, progress.gone, progress.evicted) == (2, 0, 1, 1)
