"""Trees of HyperNodes: which of them count, the labels of nodes, and the topology of gangs."""

import pytest

from shared.model.groups.hyper_nodes import Trees, pattern_fault
from shared.model.groups.topology import NetworkTopology, Topology
from tests.support.hyper_nodes import hyper_node

HARD = NetworkTopology(highest_tier=2)
RACKS_AND_BLOCK = (
    hyper_node("s0", 1, nodes="a b"),
    hyper_node("s1", 1, nodes="c"),
    hyper_node("s4", 2, inside="s0 s1"),
    hyper_node("s5", 2, nodes="d"),
    hyper_node("s6", 3, "cluster", inside="s4 s5"),
)


def faults(*hyper_nodes) -> dict[str, str]:
    return {name: rule for name, (_field, rule) in Trees(hyper_nodes).faults.items()}


def test_a_node_is_in_the_hyper_nodes_above_its_own():
    trees = Trees(RACKS_AND_BLOCK)
    assert trees.tiers == (1, 2, 3)
    both = ("hypernode", "hypernode-or-node")
    assert trees.labels(("s0",), "a") == {
        f"{key}@{tier}": name for key in both for tier, name in ((1, "s0"), (2, "s4"), (3, "s6"))
    }


def test_a_node_without_a_hyper_node_of_a_tier_is_alone_there():
    labels = Trees(RACKS_AND_BLOCK).labels(("s5",), "d")
    assert labels["hypernode@2"] == labels["hypernode-or-node@2"] == "s5"
    assert labels["hypernode-or-node@1"] == "node/d"
    assert "hypernode@1" not in labels


def test_at_a_tier_that_a_tree_lacks_the_one_below_counts():
    trees = Trees((*RACKS_AND_BLOCK, hyper_node("lone", 1, nodes="e")))
    labels = trees.labels(("lone",), "e")
    assert {labels[f"hypernode@{tier}"] for tier in (1, 2, 3)} == {"lone"}


@pytest.mark.parametrize(
    ("network", "levels", "highest"),
    [
        (HARD, "hypernode@2 hypernode-or-node@1", 0),
        (NetworkTopology(highest_tier=7), "hypernode@3 hypernode-or-node@2 hypernode-or-node@1", 0),
        (NetworkTopology(), "hypernode@3 hypernode-or-node@2 hypernode-or-node@1", 0),
        (NetworkTopology(highest_tier=0), "hypernode@0", 0),
        (
            NetworkTopology(highest_tier_name="cluster"),
            "hypernode@3 hypernode-or-node@2 hypernode-or-node@1",
            0,
        ),
        (NetworkTopology(highest_tier_name="other"), "hypernode@other", 0),
        (
            NetworkTopology(is_hard=False, highest_tier=1),
            "hypernode-or-node@3 hypernode-or-node@2 hypernode-or-node@1",
            -1,
        ),
    ],
    ids=["hard", "above all", "any tier", "below all", "by name", "no such name", "soft"],
)
def test_tiers_are_levels(network, levels, highest):
    keys = tuple(levels.split())
    wanted = Topology(keys, lowest=len(keys) - 1, highest=highest)
    assert Trees(RACKS_AND_BLOCK).topology(network) == wanted


def test_without_hyper_nodes_hard_groups_wait_and_soft_ones_go_anywhere():
    trees = Trees(())
    assert trees.topology(HARD) == Topology(("hypernode@2",))
    assert trees.topology(NetworkTopology(is_hard=False)) is None


def test_a_hyper_node_with_a_member_of_no_lower_tier_is_left_out():
    found = faults(hyper_node("x", 2, inside="y"), hyper_node("y", 2, nodes="a"))
    assert found == {"x": "y is of tier 2, not below 2"}


def test_of_a_cycle_one_is_left_out():
    found = faults(hyper_node("x", 1, inside="y"), hyper_node("y", 2, inside="x"))
    assert found == {"x": "y is of tier 2, not below 1"}
    assert faults(hyper_node("x", 1, inside="x")) == {"x": "x is of tier 1, not below 1"}


def test_of_two_parents_the_second_is_left_out():
    child = hyper_node("s0", 1, nodes="a")
    found = faults(child, hyper_node("y", 2, inside="s0"), hyper_node("x", 3, inside="s0"))
    assert found == {"x": "s0 is a member of HyperNode y already"}


def test_what_is_left_out_has_no_members():
    hyper_nodes = (
        *(hyper_node("s0", 1, nodes="a"), hyper_node("s1", 1, nodes="b")),
        *(hyper_node("x", 2, inside="s0"), hyper_node("y", 2, inside="s1 s0")),
        hyper_node("z", 3, inside="s1"),
    )
    trees = Trees(hyper_nodes)
    assert list(trees.faults) == ["y"]
    assert trees.parents == {"s0": "x", "s1": "z"}


def test_a_node_named_by_two_hyper_nodes_of_a_tier_is_in_the_first():
    found = faults(hyper_node("s0", 1, nodes="a"), hyper_node("s1", 1, nodes="b a"))
    assert found == {"s1": "node a is a member of HyperNode s0 already"}


def test_a_higher_hyper_node_may_select_the_nodes_itself():
    flat = (hyper_node("s0", 1, nodes="a"), hyper_node("s4", 2, nodes="a b"))
    trees = Trees((*flat, hyper_node("s6", 3, inside="s4")))
    assert trees.faults == {}
    labels = trees.labels(("s0", "s4"), "a")
    assert [labels[f"hypernode@{tier}"] for tier in (1, 2, 3)] == ["s0", "s4", "s6"]


def test_of_several_of_a_tier_the_first_by_name_counts():
    trees = Trees((hyper_node("y", 1), hyper_node("x", 1)))
    assert trees.labels(("x", "y"), "a")["hypernode@1"] == "x"


def test_a_member_that_does_not_exist_is_no_fault():
    assert faults(hyper_node("x", 2, inside="missing", nodes="missing")) == {}


@pytest.mark.parametrize(
    "pattern",
    [
        r"^node-[0-9]+$",
        r"rack-1-.*",
        r"^(gpu|cpu)-\d{1,3}$",
        r"(?:a|b)?-x",
        r"[^-.]+",
        r"a\.b",
        r"[]x]",
        "",
    ],
)
def test_patterns_that_go_and_python_read_alike(pattern):
    assert pattern_fault(pattern) == ""


@pytest.mark.parametrize(
    ("pattern", "rule"),
    [
        ("(a+)+$", "repeats a group at character 5, which is not supported"),
        ("(?=a)", "is not supported from character 1 on"),
        ("(?i)a", "is not supported from character 1 on"),
        ("a++", "is not supported from character 3 on"),
        (r"(a)\1", "is not supported from character 4 on"),
        ("[[:alpha:]]", "is not supported from character 1 on"),
        (".*.*.*.*.*.*", "has 6 repetitions and groups, more than 5"),
        ("(", "is no regular expression: missing ), unterminated subpattern at position 0"),
        ("*a", "is no regular expression: nothing to repeat at position 0"),
        ("[b-a]", "is no regular expression: bad character range b-a at position 1"),
    ],
)
def test_patterns_that_are_refused(pattern, rule):
    assert pattern_fault(pattern) == rule
