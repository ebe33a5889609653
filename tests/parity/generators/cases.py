"""Cases for the comparison with kube-scheduler: `case(seed)`, the same on every machine.

A case holds nodes, assigned pods and pending pods as Kubernetes objects. A third of the seeds have
one feature alone, the others any number of features. Only features that Muster supports are drawn.
"""

from collections.abc import Callable
from random import Random

from tests.parity.generators import amounts, inter_pod_rules, rules
from tests.parity.generators.case_builder import (
    CPU,
    GI,
    MEMORY,
    PODS,
    Container,
    Draft,
    Node,
    Object,
    Pod,
)

Feature = Callable[[Random, Draft], None]

# In the order in which they are applied: what aims at an exact fit comes after all amounts are set.
FEATURES: tuple[Feature, ...] = (
    *(amounts.equal_nodes, amounts.odd_nodes, amounts.zero_allocatable),
    *(amounts.several_containers, amounts.odd_amounts, amounts.init_containers, amounts.sidecars),
    *(amounts.storage, amounts.huge_pages, amounts.extended),
    *(amounts.best_effort, amounts.explicit_zero, amounts.half_bytes, amounts.by_limits),
    *(amounts.overhead, amounts.pod_level, amounts.over_committed, amounts.pod_count),
    *(amounts.exact_fit, amounts.too_large, amounts.rounding, amounts.balance),
    *(rules.hard_taints, rules.soft_taints, rules.unschedulable, rules.tolerations),
    *(rules.node_selector, rules.required_affinity, rules.match_fields, rules.preferred_affinity),
    *(rules.host_ports, rules.host_network, rules.priorities, rules.namespaces),
    *(inter_pod_rules.labelled, inter_pod_rules.hard_spread, inter_pod_rules.soft_spread),
    *(
        inter_pod_rules.pod_affinity,
        inter_pod_rules.pod_anti_affinity,
        inter_pod_rules.existing_anti_affinity,
    ),
    inter_pod_rules.pods_preferred,
    inter_pod_rules.services,
    rules.bystanders,
)
# Their scores need several values on the feasible nodes of one pod.
FREQUENT: dict[Feature, float] = {
    rules.soft_taints: 2.0,
    rules.preferred_affinity: 4.0,
    inter_pod_rules.labelled: 2.0,
    inter_pod_rules.hard_spread: 1.5,
    inter_pod_rules.soft_spread: 4.5,
    inter_pod_rules.pods_preferred: 2.5,
}
NODES_MAX, ASSIGNED_MAX, PENDING_MAX = 24, 60, 4
SIZES = ((1000, 2 * GI), (2000, 4 * GI), (4000, 8 * GI), (4000, 16 * GI), (7910, 7 * GI + 1))


def case(seed: int) -> Object:
    """One case, as `muster score` and the oracle read it."""
    draw = Random(seed)
    draft = _plain(draw)
    inter_pod_rules.teams(draw, draft)
    for feature in chosen(draw, seed):
        feature(draw, draft)
    # By themselves, so that all else stays what it was.
    inter_pod_rules.selected_namespaces(Random(f"namespaces {seed}"), draft)
    amounts.pages_of_pods(Random(f"pages {seed}"), draft)
    return draft.written(draw)


def chosen(draw: Random, seed: int) -> list[Feature]:
    """The features of one seed, in the order in which they are applied."""
    if seed % 3 == 0:
        return [FEATURES[seed // 3 % len(FEATURES)]]
    share = draw.choice((0.1, 0.2, 0.3))
    return [one for one in FEATURES if draw.random() < share * FREQUENT.get(one, 1.0)]


def _plain(draw: Random) -> Draft:
    """Nodes and pods without anything special about them."""
    nodes = [_node(draw, name) for name in _node_names(draw)]
    draft = Draft(nodes=nodes)
    for number in range(draw.randint(0, min(ASSIGNED_MAX, 4 * len(nodes)))):
        node = draw.choice(nodes)
        containers = [Container(amounts.usual(draw, 4))]
        draft.assigned.append(Pod(f"assigned-{number}", node=node.name, containers=containers))
    for number in range(draw.randint(1, PENDING_MAX)):
        containers = [Container(amounts.usual(draw))]
        draft.pending.append(Pod(f"pending-{number}", containers=containers))
    return draft


def _node_names(draw: Random) -> list[str]:
    """Small clusters are frequent; the order of names is not the order of nodes."""
    few, many = draw.randint(1, 4), draw.randint(5, NODES_MAX)
    count = few if draw.random() < 0.4 else min(many, draw.randint(5, NODES_MAX))
    names = [f"node-{number}" for number in range(count)]
    draw.shuffle(names)
    return names


def _node(draw: Random, name: str) -> Node:
    cpu, memory = draw.choice(SIZES)
    labels = {rules.HOSTNAME: name} if draw.random() < 0.95 else {}
    if draw.random() < 0.9:
        labels[rules.ZONE] = f"zone-{draw.choice('abc')}"
    if draw.random() < 0.7:
        labels[rules.DISK] = draw.choice(("ssd", "hdd", "5"))
    if draw.random() < 0.8:
        labels[rules.GENERATION] = draw.choice(("1", "3", "5", "05", "7", "x9"))
    return Node(name, {CPU: cpu, MEMORY: memory, PODS: draw.choice((16, 110))}, labels)
