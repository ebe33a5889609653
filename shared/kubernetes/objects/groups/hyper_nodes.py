"""Reads HyperNodes of Volcano, from a live API and from files alike."""

from shared.kubernetes.objects import affinity
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.volume_objects import INT32_MAX, identity
from shared.model.cluster_objects import HyperNode, HyperNodeMember, LabelSelector
from shared.model.groups.hyper_nodes import pattern_fault

HYPER_NODES_VERSION = "topology.volcano.sh/v1alpha1"
SELECTORS = ("exactMatch", "regexMatch", "labelMatch")


def hyper_node(document: Fields) -> HyperNode:
    """Return a HyperNode. Raises WorldError."""
    spec = document.child("spec")
    spec.only(("tier", "tierName", "members"))
    return HyperNode(
        **identity(document),
        tier=spec.integer("tier", 0, 0, INT32_MAX),
        tier_name=spec.text("tierName"),
        members=tuple(map(_member, spec.children("members"))),
    )


def _member(member: Fields) -> HyperNodeMember:
    member.only(("type", "selector"))
    is_node = member.one_of("type", ("Node", "HyperNode"), "") == "Node"
    selector = member.child("selector")
    selector.only(SELECTORS)
    if sum(map(selector.has, SELECTORS)) != 1:
        raise selector.error("", f"must be exactly one of {', '.join(SELECTORS)}")
    if selector.has("exactMatch"):
        exact = selector.child("exactMatch")
        exact.only(("name",))
        name = exact.required_text("name")
        return HyperNodeMember(node=name) if is_node else HyperNodeMember(hyper_node=name)
    if not is_node:
        raise selector.error("", "must be exactMatch for a member of type HyperNode")
    if selector.has("labelMatch"):
        labels = affinity.label_selector(selector.child("labelMatch"))
        return HyperNodeMember(selector=LabelSelector(*labels))
    regex = selector.child("regexMatch")
    regex.only(("pattern",))
    pattern = regex.required_text("pattern")
    fault = pattern_fault(pattern)
    if fault:
        raise regex.error("pattern", fault)
    return HyperNodeMember(pattern=pattern)
