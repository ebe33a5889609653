"""The planted bugs, by the part of the product they are planted into."""

from tests.simulation.bugs import (
    binding,
    gangs_and_victims,
    ingest,
    machine,
    placement,
    queueing,
)
from tests.simulation.planted import Bug

BUGS: tuple[Bug, ...] = (
    *machine.BUGS,
    *ingest.BUGS,
    *queueing.BUGS,
    *placement.BUGS,
    *gangs_and_victims.BUGS,
    *binding.BUGS,
)
