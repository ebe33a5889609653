"""How long journals were without an owner that acts: a row for each hurt, a table over all."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from msgspec import Struct, convert, to_builtins

from shared.model.ids import service_of
from tests import collected

KIND = "recovery"


class Recovery(Struct, frozen=True):
    """From a hurt to the next claim (None: nobody had to claim) and to the first record after it
    (None: there was none), in seconds.
    """

    journal: str
    what: str
    in_flight: int
    claims_s: float | None
    acts_s: float | None


def write(name: str, found: Sequence[Recovery]) -> None:
    """Leave what one test found."""
    collected.leave(KIND, name, to_builtins(found))


def report(say: Callable[[str], None]) -> None:
    """Print what was collected, if anything."""
    found = [one for _name, rows in collected.left(KIND) for one in convert(rows, list[Recovery])]
    if found:
        say("")
        say("recovery of real processes, seconds from the hurt: min / median / max")
        for line in table(found):
            say(line)


def table(found: Sequence[Recovery]) -> Iterator[str]:
    """A line for each kind of hurt and service."""
    of: defaultdict[tuple[str, str], list[Recovery]] = defaultdict(list)
    for one in found:
        of[one.what, service_of(one.journal)].append(one)
    yield f"{'hurt':10}{'service':12}{'times':>6}{'in flight':>10}{'claims':>24}{'acts':>24}"
    for (what, service), rows in of.items():
        least = min(one.in_flight for one in rows)
        claims, acts = _span([one.claims_s for one in rows]), _span([one.acts_s for one in rows])
        yield f"{what:10}{service:12}{len(rows):6}{least:10}{claims:>24}{acts:>24}"


def _span(found: Sequence[float | None]) -> str:
    seconds = [one for one in found if one is not None]
    if not seconds:
        return "-"
    return f"{min(seconds):.2f} / {median(seconds):.2f} / {max(seconds):.2f}"
