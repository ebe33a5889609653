"""Bugs in trees of CompositePodGroups: found by the checker in worlds with trees."""

from tests.simulation.planted import Bug

BUGS = (
    Bug(
        "group-with-a-member-too-few",
        "shared.model.groups.trees",
        (
            "counts.get(root.gang, 0) >= root.least else None",
            "counts.get(root.gang, 0) >= root.least - 1 else None",
        ),
        by=("composite",),
        first=(0, 1, 2),
    ),
    Bug(
        "tree-with-a-group-too-few",
        "shared.model.groups.trees",
        ("if len(feasible) >= root.least else None", "if feasible else None"),
        by=("composite",),
        first=(0, 1, 2),
    ),
    Bug(
        "running-members-not-counted",
        "shared.model.groups.trees",
        ("node.least - placed.get(node.gang, 0)", "node.least - 0 * placed.get(node.gang, 0)"),
        by=("composite",),
        first=(0, 1, 2),
    ),
)
