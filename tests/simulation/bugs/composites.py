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
    Bug(
        "domain-of-the-group-above-ignored",
        "services.placement.core.gangs.tree_trials",
        ("self._best_domain(tree, around)", "self._best_domain(tree, None)"),
        by=("gang-domain",),
        first=(5, 7, 13),
    ),
    Bug(
        "later-members-in-another-domain",
        "services.placement.core.gangs.tree_trials",
        ("if homes.difference(path) or not within.any()", "if not within.any()"),
        by=("gang-domain",),
        first=(13, 15, 19),
    ),
    Bug(
        "members-with-a-node-not-sent",
        "services.queueing.core.gangs.attempts",
        ("if placed.get(node.gang) else node", "if False else node"),
        by=("composite", "gang-domain"),
        first=(1, 3, 5),
    ),
)
