"""Trees of groups: CompositePodGroups over PodGroups (Kubernetes 1.37).

A PodGroup is feasible with at least `least` members that have a node, a composite one with at least
`least` feasible groups right below it. An infeasible group takes those below it with it. All pods
below a group with a `key` have nodes with one value of this label.
Source: PlacementFeasible of gangscheduling.go and schedule_one_podgroup.go of kube-scheduler 1.37.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from shared.model.ids import GangId

COMPOSITE = "@composite"
"""How keys of CompositePodGroups end: a PodGroup may have the same name."""


class GroupNode(Struct, frozen=True, omit_defaults=True, gc=False):
    """A group of a tree, at a `depth` (0: the root). `least`: how many members, or of a composite
    one groups right below it, must have nodes. `key`: its topology, the label of a node. In
    questions about trees with such labels `placed` (int64) are members that have a node, and
    `homes` the values of the label that pods below the group have on other shards.
    """

    gang: GangId
    least: int
    depth: int = 0
    is_composite: bool = False
    key: str = ""
    placed: bytes = b""
    homes: tuple[str, ...] = ()


GroupTree = tuple[GroupNode, ...]
"""A group, followed by the trees below it, the oldest first; empty: no tree."""


def name_of(key: str) -> str:
    """Return the name of a CompositePodGroup."""
    return key.partition("/")[2].removesuffix(COMPOSITE)


def no_quorum(key: str) -> str:
    """Return kube-scheduler's message for pods of a tree without enough members or groups."""
    return f'waiting for composite pod group "{name_of(key)}" tree to meet quorum'


def has_topology(tree: GroupTree) -> bool:
    """Return whether pods of some group need nodes with one value of a label."""
    return any(node.key for node in tree)


def leaves(tree: GroupTree) -> Iterator[GangId]:
    """Yield the PodGroups, in the order in which they are tried."""
    return (node.gang for node in tree if not node.is_composite)


def subtrees(tree: GroupTree) -> Iterator[GroupTree]:
    """Yield each group with those below it, parallel to the tree."""
    for at, node in enumerate(tree):
        later = range(at + 1, len(tree))
        end = next((one for one in later if tree[one].depth <= node.depth), len(tree))
        yield tree[at:end]


def below(tree: GroupTree) -> Iterator[GroupTree]:
    """Yield the trees right below the root."""
    starts = [at for at, node in enumerate(tree) if node.depth == tree[0].depth + 1]
    for start, end in zip(starts, [*starts[1:], len(tree)], strict=False):
        yield tree[start:end]


def feasible_leaves(tree: GroupTree, counts: Mapping[GangId, int]) -> set[GangId] | None:
    """Return the PodGroups that start if so many members of each have a node; None if the whole
    tree is infeasible.
    """
    root = tree[0]
    if not root.is_composite:
        return {root.gang} if counts.get(root.gang, 0) >= root.least else None
    found = [feasible_leaves(one, counts) for one in below(tree)]
    feasible = [one for one in found if one is not None]
    return set[GangId]().union(*feasible) if len(feasible) >= root.least else None


def least_members(tree: GroupTree, waiting: Mapping[GangId, int]) -> dict[GangId, int] | None:
    """Return how many waiting members of which PodGroups are enough for the tree: of the first
    groups that may be, those first that need none. None if there are too few.
    """
    root = tree[0]
    if not root.is_composite:
        return {root.gang: root.least} if waiting.get(root.gang, 0) >= root.least else None
    found = [least_members(one, waiting) for one in below(tree)]
    enough = sorted((one for one in found if one is not None), key=lambda one: any(one.values()))
    if len(enough) < root.least:
        return None
    return {gang: count for one in enough[: root.least] for gang, count in one.items()}


def feasible_groups(tree: GroupTree, counts: Mapping[GangId, int]) -> int:
    """Return how many groups right below the root are feasible."""
    return sum(feasible_leaves(one, counts) is not None for one in below(tree))


def missing(tree: GroupTree, placed: Mapping[GangId, int]) -> GroupTree:
    """Return the tree with what each PodGroup needs besides its members that have a node."""
    return tuple(
        node
        if node.is_composite
        else structs.replace(node, least=max(0, node.least - placed.get(node.gang, 0)))
        for node in tree
    )


def fitting_leaves(
    tree: GroupTree, sizes: Mapping[GangId, int], room: int
) -> tuple[set[GangId] | None, int]:
    """Return the PodGroups that start if `room` members may have a node, whichever these are, and
    the room that is left. An infeasible group leaves its room to the next. None: the whole tree is
    infeasible.
    """
    root, left = tree[0], room
    if not root.is_composite:
        count = min(sizes.get(root.gang, 0), room)
        return ({root.gang}, room - count) if count >= root.least else (None, room)
    fitting, groups = set[GangId](), 0
    for one in below(tree):
        found, left = fitting_leaves(one, sizes, left)
        if found is not None:
            fitting, groups = fitting | found, groups + 1
    return (fitting, left) if groups >= root.least else (None, room)
