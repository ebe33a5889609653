"""Planted bugs in the early end of a search for nodes; each shows in the case of its seed."""

from tests.simulation.planted import Bug

SEARCH, KERNEL = "shared.scheduling.cycle.sampling", "shared.scheduling.cycle.kernel"
PLACES = "services.placement.core.placing.sampling"


def _bug(name: str, seed: int, module: str, old: str, new: str) -> Bug:
    return Bug(name, module, (old, new), first=(seed,))


BUGS = (
    _bug("many-of-the-same", 1, SEARCH, "return 1  # they", "return nodes  # they"),
    _bug("one-too-few", 0, SEARCH, "int(hits[most])", "int(hits[most - 1])"),
    _bug("ends-at-the-last", 1, SEARCH, "int(hits[most])", "int(hits[most - 1]) + 1"),
    _bug("always-from-the-first", 0, SEARCH, "-(start % len(rows))", "0"),
    _bug("search-start-negated", 0, SEARCH, "-(start % len(rows))", "start % len(rows)"),
    _bug("zone-after-zone", 0, SEARCH, "(place, number, one)", "(number, place, one)"),
    _bug("new-labels-first", 9, SEARCH, "for name in names if", "for name in names[::-1] if"),
    _bug("region-forgotten", 9, SEARCH, '{region}:\\0:{zone}"', '{zone}"'),
    _bug(
        *("named-by-all", 5, KERNEL),
        *("order if named is None else order[~named[order]]", "order"),
    ),
    _bug("scored-with-others", 0, KERNEL, "takes[found] = False", "takes[:] = False"),
    _bug("nominated-not-counted", 75, KERNEL, "int(tried is not None and", "int(False and"),
    _bug("nominated-counted-twice", 25, KERNEL, " and tried not in looked_at", ""),
    _bug("rules-come-later", 7, KERNEL, "takes &= ~refused_with", "takes & ~refused_with"),
    _bug("nominated-not-first", 0, PLACES, "if nominated is not None:", "if False:"),
    _bug("index-stays", 0, PLACES, "(state.start_index + examined)", "(state.start_index)"),
)
