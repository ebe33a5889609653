"""Nodes that several schedulers overfilled: each bind that took a node above its allocatable, and
the reason from the journals: it was decided before the other's bind was known.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.live.checker import journals
from tests.live.checker.check import Evidence, Race, check
from tests.live.checker.cluster_state import Change
from tests.soak.history_checks import Over

_SHARES = (50, 90, 99, 100)


@dataclass(frozen=True)
class Price:
    """`races` by scheduler; `problems` are the checker's, and binds that nothing explains."""

    races: Mapping[str, Sequence[Race]]
    problems: Sequence[str]

    # Of each Muster, when it was started.
    starts_s: Mapping[str, Sequence[float]]

    def is_sent_again(self, name: str, race: Race) -> bool:
        """Whether the process was killed between the decision and the bind."""
        return any(race.decided_s < one < race.bound_s for one in self.starts_s[name])

    def lines(self) -> Iterator[str]:
        """Yield a line for each race."""
        for name, races in self.races.items():
            for race in races:
                again = "; sent again after a kill" if self.is_sent_again(name, race) else ""
                yield f"{name}: {told(race)}{again}"

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield rows of the report for each Muster."""
        for name, races in self.races.items():
            again = sum(self.is_sent_again(name, race) for race in races)
            first = sum(race.stale_s > 0 for race in races)
            text = f"{len(races)} ({first} with binds of others there before it decided)"
            yield f"{name} over-committed", f"{text}; sent again after a kill: {again}"
            stale = [1000 * race.stale_s for race in races]
            late = [1000 * (race.told_s - race.decided_s) for race in races]
            yield f"{name} unseen before it decided (ms)", quantiles(stale, 0)
            yield f"{name} known after it decided (ms)", quantiles(late, 0)


def quantiles(values: Iterable[float], digits: int) -> str:
    """Return p50, p90, p99 and the largest value."""
    found = sorted(values)
    if not found:
        return "none"
    picked = {share: found[min(len(found) - 1, len(found) * share // 100)] for share in _SHARES}
    return " ".join(f"p{share} {value:.{digits}f}" for share, value in picked.items())


def price(
    changes: Sequence[Change], audit: Sequence[Any], runs: Mapping[str, Path], overs: Sequence[Over]
) -> Price:
    """`runs` are the run directories of all Musters, by scheduler name."""
    races: dict[str, Sequence[Race]] = {}
    problems: list[str] = []
    starts_s: dict[str, Sequence[float]] = {}
    for name, folder in runs.items():
        recorded = journals.of_file(folder / "journals.db")
        starts_s[name] = [one.time_s for one in recorded["binding/0"] if one.owner]
        evidence = Evidence(
            changes=changes,
            audit=audit,
            journals=recorded,
            now_s=time.time(),
            schedulers=frozenset({name}),
        )
        verdict = check(evidence)
        races[name] = verdict.races
        problems += [f"{name}: {text}" for text in verdict.problems]
    explained = {one.revision for found in races.values() for one in found if one.missed}
    problems += [
        f"{over.pod} takes {over.node} above its {', '.join(over.what)} at {over.revision}, and "
        "nothing in the journals says that it was not known"
        for over in overs
        if over.scheduler in runs and over.revision not in explained
    ]
    return Price(races, problems, starts_s)


def told(race: Race) -> str:
    """Return one race as a line; times in ms after the decision."""
    known = f"{1000 * (race.told_s - race.decided_s):+.0f}"
    bound = f"{1000 * (race.bound_s - race.decided_s):+.0f}"
    return (
        f"{race.pod} on {race.node} ({', '.join(race.resources)}): {', '.join(race.missed)} there "
        f"for {1000 * race.stale_s:.0f} ms when decided; known at {known}, bound at {bound}"
    )
