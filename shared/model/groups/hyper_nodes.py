"""HyperNodes of Volcano as trees, and the topology that they give a gang.

Each tier becomes levels of a topology (shared/model/groups/topology.py): ingest labels the nodes
with the HyperNodes that have them. `@` is in no label of users.

A tree may lack tiers. At a tier that it lacks, a node is in its highest HyperNode below, and
without one it is alone: another label, since that is no HyperNode.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from shared.model.cluster_objects import HyperNode
from shared.model.groups.topology import NetworkTopology, Topology

Fault = tuple[str, str]
"""The field of a HyperNode, and the rule that it breaks."""
CHOICES_MAX = 5
"""How many repetitions and groups a pattern may have: the time to match multiplies with each."""
_TOKEN = re.compile(
    r"(?P<repeat>(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??)"
    r"|(?P<plain>\\[dDsSwW]|\\[^\w\s]|[^\\\[\]()*+?{}]"
    r"|\[\^?\]?(?:\\[dDsSwW]|\\[^\w\s]|[^\[\]\\])*\])"
    r"|(?P<begin>\((?:\?:)?(?!\?))"
    r"|(?P<end>\))"
)


def pattern_fault(pattern: str) -> str:
    """Return the rule that a regular expression for names of nodes breaks; empty if none.

    Volcano takes all that Go takes, in linear time. Python tries repetitions in each other one by
    one, which may last for years: what both read alike and is quick enough is allowed.
    """
    at, last, choices = 0, "", 0
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        kind = str(found.lastgroup) if found is not None else ""
        if found is None or (kind, last) == ("repeat", "repeat"):
            return f"is not supported from character {at + 1} on"
        if kind == "repeat" and last == "end" and found[0] != "?":
            return f"repeats a group at character {at + 1}, which is not supported"
        choices += kind in ("repeat", "begin")
        at, last = found.end(), kind
    if choices > CHOICES_MAX:
        return f"has {choices} repetitions and groups, more than {CHOICES_MAX}"
    try:
        re.compile(pattern, re.ASCII)
    except re.error as error:
        return f"is no regular expression: {error}"
    return ""


def tier_key(tier: int | str) -> str:
    """Return the label with a node's highest HyperNode up to a tier; a node without one lacks
    it.
    """
    return f"hypernode@{tier}"


def _alone_key(tier: int) -> str:
    return f"hypernode-or-node@{tier}"


class Trees:
    """The HyperNodes that count, with the parent of each. The others have faults, by name: in the
    order of tiers, then names, one is left out if a member is not below it, or already has another
    parent, of nodes another one of the tier.
    """

    def __init__(self, hyper_nodes: Iterable[HyperNode]) -> None:
        """Build the trees. Of two of one name, the one with the last uid counts."""
        given = sorted(hyper_nodes, key=lambda one: one.uid)
        self._all = {one.name: one for one in given}
        self.faults: dict[str, Fault] = {}
        self.parents: dict[str, str] = {}
        self.used: list[HyperNode] = []
        # By tier and node of an exact match.
        self._owners: dict[tuple[int, str], str] = {}
        self._labels: dict[tuple[str, ...], tuple[dict[str, str], list[str]]] = {}  # by selected
        for one in sorted(self._all.values(), key=lambda one: (one.tier, one.name)):
            self._add(one)

    @cached_property
    def tiers(self) -> tuple[int, ...]:
        """Return the tiers, ascending."""
        return tuple(dict.fromkeys(one.tier for one in self.used))

    @cached_property
    def names(self) -> Mapping[str, int]:
        """Return the tiers by name; one name of several is that of the lowest."""
        return {one.tier_name: one.tier for one in reversed(self.used) if one.tier_name}

    def labels(self, selected: tuple[str, ...], node: str) -> dict[str, str]:
        """Return the labels of a node that these HyperNodes select: it is in them and in those that
        they are in. Of several of a tier the first by name counts.
        """
        found = self._labels.get(selected)
        if found is None:
            found = self._labels[selected] = self._labels_of(selected)
        shared, alone = found
        return {**shared, **dict.fromkeys(alone, f"node/{node}")}

    def topology(self, network: NetworkTopology) -> Topology | None:
        """Return a gang's topology; None if there is nothing to prefer."""
        if not network.is_hard:
            levels = tuple(map(_alone_key, reversed(self.tiers)))
            return Topology(levels, lowest=len(levels) - 1, highest=-1) if levels else None
        highest: int | str = network.highest_tier_name
        if network.highest_tier is not None:
            highest = network.highest_tier
        elif highest:
            highest = self.names.get(network.highest_tier_name, highest)
        elif self.tiers:
            highest = self.tiers[-1]
        allowed = [one for one in self.tiers if isinstance(highest, int) and one <= highest]
        if not allowed:
            return Topology((tier_key(highest),))  # no node has it
        below = tuple(map(_alone_key, reversed(allowed[:-1])))
        return Topology((tier_key(allowed[-1]), *below), lowest=len(below))

    def _labels_of(self, selected: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
        """Return the labels that all such nodes have, and those of the tiers at which each is
        alone.
        """
        within = {one.name: one for name in selected for one in self._chain(name)}
        of_tier = {one.tier: name for name, one in sorted(within.items(), reverse=True)}
        shared: dict[str, str] = {}
        highest = ""
        for tier in self.tiers:
            highest = of_tier.get(tier, highest)
            if highest:
                shared[tier_key(tier)] = shared[_alone_key(tier)] = highest
        return shared, [_alone_key(tier) for tier in self.tiers if tier_key(tier) not in shared]

    def _chain(self, name: str) -> list[HyperNode]:
        """Return a HyperNode and those that it is in, the lowest first."""
        chain = [self._all[name]]
        while chain[-1].name in self.parents:
            chain.append(self._all[self.parents[chain[-1].name]])
        return chain

    def _add(self, one: HyperNode) -> None:
        fault = self._fault(one)
        if fault is not None:
            self.faults[one.name] = fault
            return
        self.used.append(one)
        for member in one.members:
            if member.hyper_node in self._all and member.hyper_node not in self.faults:
                self.parents[member.hyper_node] = one.name
            if member.node:
                self._owners[one.tier, member.node] = one.name

    def _fault(self, one: HyperNode) -> Fault | None:
        for number, member in enumerate(one.members):
            where = f"spec.members[{number}].selector.exactMatch.name"
            child = self._all.get(member.hyper_node)
            if child is not None and child.tier >= one.tier:
                return where, f"{child.name} is of tier {child.tier}, not below {one.tier}"
            if member.hyper_node in self.parents:
                other = self.parents[member.hyper_node]
                return where, f"{member.hyper_node} is a member of HyperNode {other} already"
            owner = self._owners.get((one.tier, member.node))
            if owner is not None:
                return where, f"node {member.node} is a member of HyperNode {owner} already"
        return None
