"""The planted bugs, by the part of the product they are planted into."""

from tests.simulation.bugs import machine
from tests.simulation.planted import Bug

BUGS: tuple[Bug, ...] = (*machine.BUGS,)
