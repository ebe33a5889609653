"""HyperNodes of Volcano for tests."""

from shared.model.cluster_objects import HyperNode, HyperNodeMember


def hyper_node(
    name: str,
    tier: int,
    tier_name: str = "",
    *,
    nodes: str = "",
    inside: str = "",
    more: tuple[HyperNodeMember, ...] = (),
    uid: str = "",
) -> HyperNode:
    """Return a HyperNode with the nodes and the HyperNodes of these names, and `more` members."""
    members = (
        *(HyperNodeMember(hyper_node=one) for one in inside.split()),
        *(HyperNodeMember(node=one) for one in nodes.split()),
        *more,
    )
    uid = uid or f"uid-{name}"
    return HyperNode(uid=uid, name=name, tier=tier, tier_name=tier_name, members=members)
