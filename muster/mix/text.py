"""The summary of a mix as lines for people, and its figures by name."""

from collections.abc import Iterator

from msgspec.structs import asdict

from muster.cli.table import table
from muster.cli.terminal import duration
from muster.mix.summary import MixSummary, Times

FIGURES = ("pods", "nodes_failed", "evicted", "failed", "fragmentation", "speed")
OF_CLASS = ("waiting", "evicted", "failed", "restarts", "lost_cpu_hours", "lost_gpu_hours")


def lines_of(result: MixSummary) -> list[str]:
    """Return the lines: figures of the whole cluster, then a table of the classes."""
    found = rows(result)
    width = max(len(name) for name, _ in found) + 2
    named = [f"{name:<{width}}{value}" for name, value in found]
    return [*named, "", *table(list(_cells(result)))]


def rows(result: MixSummary) -> list[tuple[str, str]]:
    """Return (name, value) of the whole cluster, in reading order."""
    used = ", ".join(f"{one.resource} {one.used:.1%}" for one in result.usage)
    lost = ", ".join(f"{one.resource} {one.lost:.1%}" for one in result.usage)
    played = f"{duration(result.horizon_s)} in {duration(result.real_s)}, {result.speed:,.0f} x"
    found = [
        ("mix", f"{result.mix}, seed {result.seed}"),
        ("played", f"{played} as fast as time passes"),
        ("nodes", f"{result.nodes:,}, {result.nodes_failed:,} failed"),
        ("pods", f"{result.pods:,}, {result.evicted:,} evicted, {result.failed:,} lost with nodes"),
        ("used", used),
        ("lost work", f"{lost} of what was used"),
        ("fragmentation", f"{result.fragmentation:.1%} of free GPUs are on partly used nodes"),
    ]
    labels = dict.fromkeys(spread.label for one in result.classes for spread in one.spread)
    for label in labels:
        words = ", ".join(
            f"{one.name} over {spread.domains:.1f}, {spread.fullest:.0%} of a job in its fullest"
            for one in result.classes
            for spread in one.spread
            if spread.label == label
        )
        found.append((label, words))
    return [*found, ("kept in", result.run)]


def _cells(result: MixSummary) -> Iterator[dict[str, str]]:
    for one in result.classes:
        for size in one.sizes:
            yield {
                "CLASS": one.name,
                "KIND": one.kind,
                "SIZE": f"{size.size:,}",
                "CAME": f"{size.came:,}",
                "ENDED": f"{size.ended:,}" if one.kind != "inference" else "",
                **_times("WAIT", size.wait_s),
                **_times("COMPLETION", size.completion_s),
            }


def _times(title: str, found: Times | None) -> dict[str, str]:
    values = (None, None) if found is None else (found.mean, found.p99)
    return {
        f"{title} {name}": "" if value is None else duration(value)
        for name, value in zip(("MEAN", "P99"), values, strict=True)
    }


def figures_of(result: MixSummary) -> dict[str, float | None]:
    """Return all figures by name, for a comparison."""
    found: dict[str, float | None] = {name: getattr(result, name) for name in FIGURES}
    for share in result.usage:
        found |= {f"{share.resource}.used": share.used, f"{share.resource}.lost": share.lost}
    for one in result.classes:
        found |= {f"{one.name}.{name}": getattr(one, name) for name in OF_CLASS}
        for spread in one.spread:
            found[f"{one.name}.{spread.label}.domains"] = spread.domains
            found[f"{one.name}.{spread.label}.fullest"] = spread.fullest
        for size in one.sizes:
            name = f"{one.name}.{size.size}"
            found |= {f"{name}.came": size.came, f"{name}.ended": size.ended}
            for title, times in (("wait_s", size.wait_s), ("completion_s", size.completion_s)):
                values = dict.fromkeys(Times.__struct_fields__) if times is None else asdict(times)
                found |= {f"{name}.{title}.{key}": value for key, value in values.items()}
    return found
