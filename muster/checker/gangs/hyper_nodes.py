"""Where gangs with a networkTopology of Volcano may run, by the HyperNodes of the cluster.

If these are no trees, some of them do not count, and which is not checked here.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from msgspec.structs import replace

from muster.checker.inputs.facts import Facts
from muster.checker.inputs.history import ClusterHistory
from muster.checker.inputs.journals import Problem
from shared.model.cluster_objects import HyperNode, HyperNodeMember
from shared.model.groups.topology import Topology
from shared.model.objects import Gang, Node
from shared.model.pod_rules.selectors import holds

LABEL, PUBLISHED = "tier {}", "hypernode@{}"


def with_labels(nodes: Iterable[Node], hyper_nodes: Sequence[HyperNode]) -> list[Node]:
    """Return the nodes with a label for each tier: the highest HyperNode up to it."""
    nodes = list(nodes)
    within = _within(nodes, hyper_nodes) or {}
    found = []
    for node in nodes:
        has = [one for one in hyper_nodes if node.name in within.get(one.name, ())]
        labels = {}
        for tier in {one.tier for one in hyper_nodes}:
            below = [one for one in has if one.tier <= tier]
            if below:
                labels[LABEL.format(tier)] = max(below, key=lambda one: one.tier).name
        found.append(replace(node, labels={**node.labels, **labels}))
    return found


def _within(nodes: Sequence[Node], hyper_nodes: Sequence[HyperNode]) -> dict[str, set[str]] | None:
    """Return the names of the nodes in each HyperNode; None if they are no trees."""
    by_name = {one.name: one for one in hyper_nodes}
    if not all(_is_above_its_members(one, by_name) for one in hyper_nodes):
        return None
    within = {one.name: set(_nodes_of(one, by_name, nodes)) for one in hyper_nodes}
    return within if _are_trees(hyper_nodes, within) else None


def check(facts: Facts, history: ClusterHistory) -> Iterator[Problem]:
    """Yield nodes that ingest published with other HyperNodes than they have. At rest only."""
    trees = [one for one in history.objects if isinstance(one, HyperNode)]
    tiers = sorted({one.tier for one in trees})
    if _within(history.nodes, trees) is None:
        return
    for node in with_labels(history.nodes, trees):
        published = _published(node, facts)
        for tier in tiers:
            wanted, found = (
                node.labels.get(LABEL.format(tier)),
                published.get(PUBLISHED.format(tier)),
            )
            if wanted != found:
                text = f"node {node.name}: in HyperNode {wanted} at tier {tier}, published {found}"
                yield "hyper-nodes", text


def with_published(nodes: Iterable[Node], facts: Facts) -> list[Node]:
    """Return the nodes with the labels of their HyperNodes as ingest published them."""
    found = []
    for node in nodes:
        added = {key: value for key, value in _published(node, facts).items() if "@" in key}
        found.append(replace(node, labels=node.labels | added) if added else node)
    return found


def _published(node: Node, facts: Facts) -> dict[str, str]:
    """Return the labels that ingest published."""
    number = facts.node_id.get(node.uid)
    return {} if number is None else facts.nodes[number].labels


def with_topology(gang: Gang, hyper_nodes: Sequence[HyperNode]) -> Gang:
    """Return the gang with the broadest level at which it may run as its topology."""
    network, tiers = gang.network, {one.tier: one.tier_name for one in hyper_nodes}
    if network is None or not (network.is_hard or tiers):
        return gang
    if not network.is_hard:
        return replace(gang, topology=Topology((LABEL.format(max(tiers)),), highest=-1))
    allowed = set(tiers)
    if network.highest_tier is not None:
        allowed = {tier for tier in tiers if tier <= network.highest_tier}
    elif network.highest_tier_name:
        named = [one.tier for one in hyper_nodes if one.tier_name == network.highest_tier_name]
        allowed = {tier for tier in tiers if tier <= min(named, default=-1)}
    return replace(gang, topology=Topology((LABEL.format(max(allowed, default=-1)),)))


def _is_above_its_members(one: HyperNode, by_name: Mapping[str, HyperNode]) -> bool:
    found = (by_name[name] for name in _members(one) if name in by_name)
    return all(member.tier < one.tier for member in found)


def _are_trees(hyper_nodes: Sequence[HyperNode], within: Mapping[str, set[str]]) -> bool:
    """Return whether each HyperNode is a member of one other at most, and no node of two of a
    tier.
    """
    parents = Counter(name for one in hyper_nodes for name in _members(one))
    are_apart = all(
        one.tier != other.tier or within[one.name].isdisjoint(within[other.name])
        for one, other in combinations(hyper_nodes, 2)
    )
    return are_apart and max(parents.values(), default=1) == 1


def _members(one: HyperNode) -> set[str]:
    return {member.hyper_node for member in one.members} - {""}


def _nodes_of(
    one: HyperNode, by_name: Mapping[str, HyperNode], nodes: Sequence[Node]
) -> Iterator[str]:
    for node in nodes:
        if any(_selects(member, node) for member in one.members):
            yield node.name
    for name in _members(one) & by_name.keys():
        yield from _nodes_of(by_name[name], by_name, nodes)


def _selects(member: HyperNodeMember, node: Node) -> bool:
    if member.selector is not None:
        expressions, labels = member.selector.match_expressions, member.selector.match_labels
        has_rule = bool(expressions or labels)
        return has_rule and _has(node.labels, labels) and holds(expressions, node.labels)
    return node.name == member.node or bool(member.pattern and re.search(member.pattern, node.name))


def _has(labels: Mapping[str, str], wanted: Iterable[tuple[str, str]]) -> bool:
    return all(labels.get(key) == value for key, value in wanted)
