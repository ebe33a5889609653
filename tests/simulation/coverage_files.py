"""Coverage of many seeds, summed over the test workers: the chunk of seeds that ends last checks
the sum.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from tests.support import worker_reports

KIND = "simulation"
JUDGED_FROM = 170
"""With fewer seeds a zero may be chance."""


def write(chunk: int, counts: Mapping[str, int]) -> None:
    """Write one chunk's coverage."""
    worker_reports.leave(KIND, str(chunk), counts)


def summed() -> tuple[int, Counter[str]]:
    """Return the number of chunks and their sum."""
    total: Counter[str] = Counter()
    done = 0
    for _chunk, counts in worker_reports.left(KIND):
        total.update(counts)
        done += 1
    return done, total


def report(say: Callable[[str], None]) -> None:
    """Print the collected coverage, if any."""
    done, total = summed()
    if done:
        from muster.simulation import coverage

        say("")
        seconds = total["milliseconds"] / 1000
        each_s = seconds / max(1, total["seeds"])
        say(f"simulation: {total['seeds']} seeds, {total['pods']} pods, {total['records']} records")
        say(f"{seconds:.0f} s in all, {each_s:.2f} s a seed")
        for line in coverage.table(total):
            say(line)
        if total["seeds"] < JUDGED_FROM:
            say(f"zeros are not judged: fewer than {JUDGED_FROM} seeds")
