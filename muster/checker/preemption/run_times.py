"""Checks that a shard chooses no victims that have not run for their minimum run time."""

from collections.abc import Iterator

from muster.checker.inputs.journals import Journal, Problem
from shared.events.base import Event
from shared.events.ingest import MinimumRunTime, PodsAssigned, PodsStarted
from shared.events.placement import CandidatesFound, GangHeld, PlacesFound, Reserved
from shared.model.columns import unpack


def check(journal: Journal) -> Iterator[Problem]:
    """Yield the victims that were chosen too early."""
    run_ms: dict[int, int] = {}
    starts_ms: dict[int, int] = {}
    placed_ms: dict[int, int] = {}
    for step in journal.steps:
        now_ms = step.record.time_ms
        for source, position, event in step.inputs:
            match event:
                case MinimumRunTime():
                    run_ms.update(dict.fromkeys(unpack(event.ids).tolist(), event.run_ms))
                case PodsStarted():
                    columns = unpack(event.ids).tolist(), unpack(event.starts_ms).tolist()
                    starts_ms.update(zip(*columns, strict=True))
                case PodsAssigned():
                    for pod in unpack(event.ids).tolist():
                        placed_ms.setdefault(pod, step.time_ms(source, position))
                case _:
                    pass
        for event in step.own:
            if isinstance(event, Reserved | GangHeld):
                for pod in unpack(event.ids).tolist():
                    placed_ms.setdefault(pod, now_ms)
            for pod in _victims(event):
                start_ms = starts_ms.get(pod, placed_ms.get(pod, 0))
                left_ms = start_ms + run_ms.get(pod, 0) - now_ms
                if run_ms.get(pod) and left_ms > 0:
                    text = f"victim {pod} is protected for another {left_ms} ms"
                    yield "minimum-run-time", f"{journal.name} at {step.position}: {text}"


def _victims(event: Event) -> list[int]:
    match event:
        case CandidatesFound():
            found = (*event.candidates, *event.series)
        case PlacesFound():
            found = tuple(place.candidate for place in event.places)
        case _:
            return []
    return [pod for one in found for pod in unpack(one.victims).tolist()]
