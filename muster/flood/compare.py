"""Two floods side by side."""

from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from muster.cli.errors import UsageFault
from muster.flood.summary import Batches, FloodSummary, Latencies

FIGURES = (
    *("pods", "bound", "gone", "waiting", "measured_bound", "seconds", "pods_per_second"),
    *("processor_us_per_pod", "api_writes_per_pod", "shard_imbalance"),
)


class Compared(Struct):
    """One figure of two floods; null where a flood has none, `ratio` also where `first` is 0."""

    figure: str
    first: float | None
    second: float | None
    ratio: float | None


def read_summary(path: Path) -> FloodSummary:
    """Return what `muster flood -o json` wrote. Raises UsageFault."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=FloodSummary)
    except OSError as error:
        raise UsageFault(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise UsageFault(f"{path}: is no summary of a flood: {error}") from error


def compared(first: FloodSummary, second: FloodSummary) -> list[Compared]:
    """Return the figures of both."""
    ones, others = _figures(first), _figures(second)
    return [
        Compared(figure, one, others[figure], _ratio(one, others[figure]))
        for figure, one in ones.items()
    ]


def _ratio(one: float | None, other: float | None) -> float | None:
    return round(other / one, 3) if one and other is not None else None


def _figures(flood: FloodSummary) -> dict[str, float | None]:
    latency = dict.fromkeys(Latencies.__struct_fields__)
    batches = dict.fromkeys(Batches.__struct_fields__)
    latency |= asdict(flood.latency_ms) if flood.latency_ms else {}
    batches |= asdict(flood.batches) if flood.batches else {}
    return {
        **{name: getattr(flood, name) for name in FIGURES},
        **{f"latency_ms.{name}": value for name, value in latency.items()},
        **{f"batches.{name}": value for name, value in batches.items()},
    }
