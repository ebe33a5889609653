"""Bugs in the eviction of whole groups, found in worlds that are full of them."""

from tests.simulation.planted import Bug

BUGS = (
    Bug(
        "pods-elsewhere-stay",
        "services.preemption.core.core",
        ("    victims = [*ask.victims, *mates]\n", "    victims = list(ask.victims)\n"),
        by=("unit-whole",),
        first=(0, 1, 2, 3),
    ),
    Bug(
        "pods-of-a-unit-put-back-one-by-one",
        "services.placement.core.preemption.unit_parts",
        ("    if not units:\n", "    if units is not None:\n"),
        by=("unit-whole", "victims-needed"),
        first=(0, 1, 2, 3, 4, 5),
    ),
)
