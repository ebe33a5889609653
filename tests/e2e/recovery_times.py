"""Times that journals spent without an acting owner: a row per fault, and a table of all."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from msgspec import Struct, convert, to_builtins

from shared.model.ids import service_of
from tests.support import worker_reports

KIND = "recovery"


class Recovery(Struct, frozen=True):
    """Seconds from a fault to the next claim (None: no claim was needed) and to the first record
    after it (None: there was none).
    """

    journal: str
    what: str
    in_flight: int
    claims_s: float | None
    acts_s: float | None


def write(name: str, found: Sequence[Recovery]) -> None:
    """Write the times that one test measured."""
    worker_reports.leave(KIND, name, to_builtins(found))


def report(say: Callable[[str], None]) -> None:
    """Print the collected times, if any."""
    found = [
        one for _name, rows in worker_reports.left(KIND) for one in convert(rows, list[Recovery])
    ]
    if found:
        say("")
        say("recovery of real processes, seconds from the hurt: min / median / max")
        for line in table(found):
            say(line)


def table(found: Sequence[Recovery]) -> Iterator[str]:
    """Yield a line for each kind of fault and service."""
    of: defaultdict[tuple[str, str], list[Recovery]] = defaultdict(list)
    for one in found:
        of[one.what, service_of(one.journal)].append(one)
    yield f"{'hurt':20}{'service':12}{'times':>6}{'in flight':>10}{'claims':>24}{'acts':>24}"
    for (what, service), rows in of.items():
        least = min(one.in_flight for one in rows)
        claims, acts = _span([one.claims_s for one in rows]), _span([one.acts_s for one in rows])
        yield f"{what:20}{service:12}{len(rows):6}{least:10}{claims:>24}{acts:>24}"


def _span(found: Sequence[float | None]) -> str:
    seconds = [one for one in found if one is not None]
    if not seconds:
        return "-"
    return f"{min(seconds):.2f} / {median(seconds):.2f} / {max(seconds):.2f}"
