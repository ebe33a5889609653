"""Trees of groups: what starts, what is enough, and what fits."""

import random

import pytest

from shared.model.groups.trees import (
    GroupNode,
    GroupTree,
    below,
    feasible_groups,
    feasible_leaves,
    fitting_leaves,
    least_members,
    leaves,
    missing,
)
from shared.model.ids import GangId

ROOT, A, B, X, C, D = map(GangId, range(1, 7))
TREE: GroupTree = (
    GroupNode(ROOT, 2, 0, is_composite=True),
    GroupNode(A, 3, 1),
    GroupNode(X, 1, 1, is_composite=True),
    GroupNode(C, 2, 2),
    GroupNode(D, 1, 2),
    GroupNode(B, 2, 1),
)


@pytest.mark.parametrize(
    ("counts", "starts", "groups"),
    [
        ({A: 3, C: 2}, {A, C}, 2),
        ({A: 2, C: 2, B: 2}, {C, B}, 2),
        ({A: 3, C: 1}, None, 1),
        ({A: 3, B: 5, D: 1}, {A, B, D}, 3),
        ({}, None, 0),
    ],
)
def test_infeasible_groups_do_not_start(counts, starts, groups):
    assert feasible_leaves(TREE, counts) == starts
    assert feasible_groups(TREE, counts) == groups


def test_the_trees_right_below_the_root():
    assert [one[0].gang for one in below(TREE)] == [A, X, B]
    assert list(leaves(TREE)) == [A, C, D, B]
    assert list(below(TREE[1:2])) == []


def test_members_that_run_are_not_missing():
    left = missing(TREE, {A: 1, C: 5})
    assert {node.gang: node.least for node in left if not node.is_composite} == {
        A: 2,
        C: 0,
        D: 1,
        B: 2,
    }
    assert left[0] == TREE[0]


def test_the_first_groups_are_enough_and_those_that_run_go_first():
    waiting = {A: 3, C: 2, D: 1, B: 2}
    assert least_members(TREE, waiting) == {A: 3, C: 2}
    assert least_members(missing(TREE, {B: 2}), waiting) == {B: 0, A: 3}
    assert least_members(TREE, {A: 3, C: 1}) is None


def test_an_infeasible_group_leaves_its_room_to_the_next():
    sizes = {A: 3, C: 4, D: 1, B: 2}
    assert fitting_leaves(TREE, sizes, 5) == ({A, C}, 0)
    assert fitting_leaves(TREE, sizes, 2) == (None, 2)


@pytest.mark.parametrize("seed", range(200))
def test_what_is_least_is_enough_and_nothing_of_it_is_too_much(seed):
    rng = random.Random(seed)
    tree = _random_tree(rng, 0)
    waiting = {gang: rng.randint(0, 4) for gang in leaves(tree)}
    least = least_members(tree, waiting)
    assert (least is None) == (feasible_leaves(tree, waiting) is None)
    if least is None:
        return
    assert all(count <= waiting[gang] for gang, count in least.items())
    assert set(least) <= (feasible_leaves(tree, least) or set())
    for gang in (gang for gang, count in least.items() if count):
        nodes = {node.gang: node.least for node in tree}
        assert least[gang] == nodes[gang]


def _random_tree(rng: random.Random, depth: int) -> GroupTree:
    if depth == 3 or (depth and rng.random() < 0.5):
        return (GroupNode(GangId(rng.randrange(1 << 40)), rng.randint(0, 3), depth),)
    groups = [_random_tree(rng, depth + 1) for _ in range(rng.randint(1, 3))]
    root = GroupNode(GangId(rng.randrange(1 << 40)), rng.randint(1, 3), depth, is_composite=True)
    return (root, *(node for one in groups for node in one))
