"""The checker's own reading of HyperNodes: where waiting gangs could run."""

import pytest

from muster.checker.gangs.domains import domains_of
from muster.checker.gangs.hyper_nodes import with_labels, with_topology
from shared.model.cluster_objects import HyperNodeMember
from shared.model.groups.topology import NetworkTopology
from shared.model.objects import Gang
from tests.support.builders import model_node
from tests.support.hyper_nodes import hyper_node

NODES = [model_node(name, name).obj() for name in "abcde"]
TREE = (
    hyper_node("s0", 1, "rack", nodes="a b"),
    hyper_node("s1", 1, "rack", more=(HyperNodeMember(pattern="^c"),)),
    hyper_node("s4", 2, "block", inside="s0 s1", nodes="d"),
)
BLOCK = {"a", "b", "c", "d"}


def domains(network: NetworkTopology, *hyper_nodes) -> list[set[str]]:
    gang = with_topology(Gang(key="g", min_count=1, network=network), hyper_nodes)
    assert gang.topology is not None
    nodes = with_labels(NODES, hyper_nodes)
    return [within for _name, within in domains_of(nodes, gang.topology, ())]


@pytest.mark.parametrize(
    ("network", "wanted"),
    [
        (NetworkTopology(highest_tier=1), [{"a", "b"}, {"c"}]),
        (NetworkTopology(highest_tier=5), [BLOCK]),
        (NetworkTopology(), [BLOCK]),
        (NetworkTopology(highest_tier_name="rack"), [{"a", "b"}, {"c"}]),
        (NetworkTopology(highest_tier_name="other"), []),
        (NetworkTopology(highest_tier=0), []),
        (NetworkTopology(is_hard=False), [BLOCK, set("abcde")]),
    ],
)
def test_domains_of_the_broadest_level(network, wanted):
    assert domains(network, *TREE) == wanted


@pytest.mark.parametrize(
    "more",
    [
        hyper_node("s5", 2, inside="s0"),
        hyper_node("s5", 1, nodes="b e"),
        hyper_node("s5", 1, inside="s4"),
    ],
    ids=["two parents", "a node in two", "not above"],
)
def test_what_is_no_tree_is_not_checked(more):
    assert domains(NetworkTopology(highest_tier=2), *TREE, more) == []
