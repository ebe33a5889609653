"""Figures of two runs side by side."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from muster.cli.errors import UsageFault
from muster.flood.summary import Batches, FloodSummary, Latencies

Figures = Mapping[str, float | None]
T = TypeVar("T", bound=Struct)
FIGURES = (
    *("pods", "bound", "gone", "waiting", "measured_bound", "seconds", "pods_per_second"),
    *("processor_us_per_pod", "api_writes_per_pod", "shard_imbalance"),
)


class Compared(Struct):
    """One figure of two runs; null where a run has none, `ratio` also where `first` is 0."""

    figure: str
    first: float | None
    second: float | None
    ratio: float | None


def read_summary(path: Path, kind: type[T], what: str) -> T:
    """Return a summary that a command wrote with -o json; `what` it is of. Raises UsageFault."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise UsageFault(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise UsageFault(f"{path}: is no summary of a {what}: {error}") from error


def compared(ones: Figures, others: Figures) -> list[Compared]:
    """Return all figures of both."""
    return [
        Compared(name, ones.get(name), others.get(name), _ratio(ones.get(name), others.get(name)))
        for name in dict.fromkeys((*ones, *others))
    ]


def _ratio(one: float | None, other: float | None) -> float | None:
    return round(other / one, 3) if one and other is not None else None


def figures_of(flood: FloodSummary) -> Figures:
    """Return the figures of a flood by name."""
    latency = dict.fromkeys(Latencies.__struct_fields__)
    batches = dict.fromkeys(Batches.__struct_fields__)
    latency |= asdict(flood.latency_ms) if flood.latency_ms else {}
    batches |= asdict(flood.batches) if flood.batches else {}
    return {
        **{name: getattr(flood, name) for name in FIGURES},
        **{f"latency_ms.{name}": value for name, value in latency.items()},
        **{f"batches.{name}": value for name, value in batches.items()},
    }
