"""Features of a case that are amounts: requests of pods, capacity of nodes, exact fits."""

from random import Random

from tests.parity.generators.case_builder import (
    CPU,
    GADGET,
    GI,
    GPU,
    HUGE_PAGE_BYTES,
    HUGE_PAGES,
    MEMORY,
    MI,
    PODS,
    STORAGE,
    WIDGET,
    Amounts,
    Container,
    Draft,
    Node,
    Pod,
)
from tests.parity.generators.rules import some

BOTH = (CPU, MEMORY)


def usual(draw: Random, most: int = 8) -> Amounts:
    """Return the requests of an ordinary container."""
    cpu = draw.choice((50, 100, 250, 500, 1000)[: 3 + most // 4])
    return {CPU: cpu, MEMORY: draw.choice((32, 64, 128, 256, 512)[: 3 + most // 4]) * MI}


def set_to(pod: Pod, key: str, amount: int) -> None:
    """Set the pod's total request, as far as its other containers allow."""
    more = amount - pod.asks(key)
    if key in pod.level:
        pod.level[key] = max(pod.inner(key), pod.level[key] + more)
        return
    asked = pod.mains[0].amounts
    for _ in range(2):  # the largest init container may hide the first step
        asked[key] = max(0, asked.get(key, 0) + amount - pod.asks(key))


# ----------------------------------------------------------------------------------- what pods ask


def best_effort(draw: Random, draft: Draft) -> None:
    """No requests at all, or only one of the two."""
    for pod in some(draw, draft.pods):
        for container in pod.containers:
            left = draw.choice(((), (), (CPU,), (MEMORY,)))
            container.amounts = {k: n for k, n in container.amounts.items() if k in left}


def explicit_zero(draw: Random, draft: Draft) -> None:
    """Explicit requests of 0, which differ from absent ones."""
    for pod in some(draw, draft.pods):
        for key in some(draw, (CPU, MEMORY, STORAGE, WIDGET)):
            draw.choice(pod.containers).amounts[key] = 0


def odd_amounts(draw: Random, draft: Draft) -> None:
    """Odd milli-cores and bytes."""
    for pod in some(draw, draft.pods):
        for container in pod.containers:
            amounts = {CPU: draw.randint(1, 999), MEMORY: draw.randint(1, 400 * MI)}
            container.amounts |= {key: amounts[key] for key in some(draw, BOTH)}


def odd_nodes(draw: Random, draft: Draft) -> None:
    """Nodes that reserve something for themselves."""
    for node in some(draw, draft.nodes):
        node.allocatable[CPU] = max(1, node.allocatable[CPU] - draw.randint(1, 333))
        node.allocatable[MEMORY] = max(1, node.allocatable[MEMORY] - draw.randint(1, 300 * MI))


def half_bytes(draw: Random, draft: Draft) -> None:
    """Memory in thousandths: only the pod's sum is rounded up."""
    for pod in some(draw, draft.pods):
        pod.containers.append(Container(usual(draw)))
        for container in pod.containers:
            container.half = container.kind == "main" and MEMORY in container.amounts


def several_containers(draw: Random, draft: Draft) -> None:
    """Two or three containers, some of which ask for nothing."""
    for pod in some(draw, draft.pods):
        for _ in range(draw.randint(1, 2)):
            pod.containers.append(Container(usual(draw) if draw.random() < 0.7 else {}))


def _insert(draw: Random, pod: Pod, kind: str) -> None:
    amounts = usual(draw) if draw.random() < 0.8 else {}
    factor = draw.choice((1, 1, 4))
    made = Container({key: factor * n for key, n in amounts.items()}, kind)
    if kind == "init":
        made.restarts = draw.choice(("", "", "Never", "OnFailure"))
    pod.containers.insert(draw.randint(0, len(pod.containers)), made)


def init_containers(draw: Random, draft: Draft) -> None:
    """Init containers, larger or smaller than the main ones."""
    for pod in some(draw, draft.pods):
        for _ in range(draw.randint(1, 2)):
            _insert(draw, pod, "init")


def sidecars(draw: Random, draft: Draft) -> None:
    """Sidecars, before and after ordinary init containers."""
    for pod in some(draw, draft.pods):
        for _ in range(draw.randint(1, 2)):
            _insert(draw, pod, "sidecar")
        if draw.random() < 0.6:
            _insert(draw, pod, "init")


def overhead(draw: Random, draft: Draft) -> None:
    """Overhead, as a runtime class adds it."""
    for pod in some(draw, draft.pods):
        amounts = {CPU: draw.choice((1, 100, 250)), MEMORY: draw.choice((1, 120 * MI))}
        pod.overhead = {key: amounts[key] for key in some(draw, BOTH)}


def by_limits(draw: Random, draft: Draft) -> None:
    """Containers that state limits alone."""
    for pod in some(draw, draft.pods):
        for container in some(draw, pod.containers):
            container.by_limit = True


def pod_level(draw: Random, draft: Draft) -> None:
    """Requests or limits of the pod itself, for one or both resources."""
    for pod in some(draw, draft.pods):
        keys = some(draw, BOTH)
        more = {CPU: draw.choice((0, 1, 100, 900)), MEMORY: draw.choice((0, 1, 256 * MI))}
        pod.level = {key: max(1, pod.inner(key) + more[key]) for key in keys}
        pod.level_by_limit = draw.random() < 0.3


def pages_of_pods(draw: Random, draft: Draft) -> None:
    """Huge pages that pods have as a whole, where there are any: whole ones, and no fewer than
    their containers'.
    """
    if not any(HUGE_PAGES in node.allocatable for node in draft.nodes):
        return
    for pod in draft.pods:
        if draw.random() < 0.4:
            more = draw.choice((0, 1, 2)) * HUGE_PAGE_BYTES
            pod.level[HUGE_PAGES] = max(HUGE_PAGE_BYTES, pod.inner(HUGE_PAGES) + more)


def storage(draw: Random, draft: Draft) -> None:
    """Ephemeral storage, of which some nodes have none."""
    _scarce(draw, draft, STORAGE, draw.choice((GI, 10**9, 1)))


def huge_pages(draw: Random, draft: Draft) -> None:
    """Huge pages, whole ones."""
    _scarce(draw, draft, HUGE_PAGES, HUGE_PAGE_BYTES)


def extended(draw: Random, draft: Draft) -> None:
    """Up to three kinds of devices that are only counted."""
    for key in some(draw, (WIDGET, GADGET, GPU)):
        _scarce(draw, draft, key, 1)
        if key == GPU and draw.random() < 0.4:
            _many_devices(draw, draft)


def _many_devices(draw: Random, draft: Draft) -> None:
    """Nodes with more than 63 devices, and pods that request many; none requests more than 63."""
    for node in some(draw, draft.nodes):
        node.allocatable[GPU] = draw.choice((63, 64, 65, 80, 1000))
    for pod in some(draw, draft.pods):
        for container in pod.containers:
            if container.amounts.get(GPU):
                container.amounts[GPU] = draw.choice((1, 7, 20))


def _scarce(draw: Random, draft: Draft, key: str, unit: int) -> None:
    for node in draft.nodes:
        amount = draw.choice((None, 0, 1, 2, 3, 8, 8))
        if amount is not None:
            node.allocatable[key] = amount * unit
    for pod in [*some(draw, draft.assigned, 0), *some(draw, draft.pending)]:
        draw.choice(pod.containers).amounts[key] = draw.choice((0, 1, 1, 2, 3)) * unit


# --------------------------------------------------------------------------------- what nodes have


def zero_allocatable(draw: Random, draft: Draft) -> None:
    """Nodes without cpu, without memory, or without both; written as 0 or not at all."""
    for node in some(draw, draft.nodes):
        for key in some(draw, BOTH):
            if draw.random() < 0.5:
                node.allocatable[key] = 0
            else:
                node.allocatable.pop(key, None)
    _forgo(draw, draft, draw.choice(BOTH))


def _forgo(draw: Random, draft: Draft, key: str) -> None:
    """Remove this request from some pods: nodes without the resource are feasible for them."""
    for pod in some(draw, draft.pending):
        for container in pod.containers:
            container.amounts.pop(key, None)
            container.half = container.half and key != MEMORY
        pod.overhead.pop(key, None)
        pod.level.pop(key, None)


def pod_count(draw: Random, draft: Draft) -> None:
    """Nodes that have as many pods as they take, one less, or more."""
    for node in some(draw, draft.nodes):
        there = sum(pod.node == node.name for pod in draft.assigned)
        node.allocatable[PODS] = max(0, there + draw.choice((-1, 0, 0, 1, 1, 2)))
    if draw.random() < 0.2:
        del draw.choice(draft.nodes).allocatable[PODS]


def over_committed(draw: Random, draft: Draft) -> None:
    """Nodes whose pods request more than they have."""
    key = draw.choice(BOTH)
    for node in some(draw, draft.nodes):
        there = [pod for pod in draft.assigned if pod.node == node.name]
        if there:
            left = draft.free(node, key)
            pod = draw.choice(there)
            set_to(pod, key, pod.asks(key) + left + draw.choice((1, 100, abs(left))))
    _forgo(draw, draft, key)


def equal_nodes(_draw: Random, draft: Draft) -> None:
    """Nodes that differ only in their pods: ties."""
    for node in draft.nodes:
        node.allocatable = dict(draft.nodes[0].allocatable)


# ------------------------------------------------------------------------------- what exactly fits


def exact_fit(draw: Random, draft: Draft) -> None:
    """Pods that fill one node to the last unit, or ask for one unit too many or too few."""
    for pod in some(draw, draft.pending):
        node, key = _aim(draw, draft, pod)
        set_to(pod, key, max(0, draft.free(node, key) + draw.choice((-1, 0, 0, 1, 1))))


def too_large(draw: Random, draft: Draft) -> None:
    """Pods as large as a whole node, or one unit larger: removing pods would not help there."""
    for pod in some(draw, draft.pending):
        node, key = _aim(draw, draft, pod)
        set_to(pod, key, node.allocatable.get(key, 0) + draw.choice((0, 0, 1, 1, 10**6)))


def _aim(draw: Random, draft: Draft, pod: Pod) -> tuple[Node, str]:
    """Return a node and a resource to fill exactly; neither huge pages nor devices."""
    asked = {key for container in pod.containers for key in container.amounts}
    keys = sorted((asked | {CPU, MEMORY}) - {HUGE_PAGES, GPU})
    return draw.choice(draft.nodes), draw.choice(keys)


def rounding(draw: Random, draft: Draft) -> None:
    """Pods that leave a whole number of percents of a node, or one unit more or less."""
    for pod in draft.pending:
        node = draw.choice(draft.nodes)
        for key in some(draw, BOTH):
            whole = node.allocatable.get(key, 0)
            left = -(-whole * draw.randint(0, 99) // 100)
            set_to(pod, key, max(0, draft.free(node, key) - left + draw.choice((-1, 0, 0, 1))))


def balance(draw: Random, draft: Draft) -> None:
    """Pods that fill cpu and memory of a node equally, or nearly so."""
    for pod in draft.pending:
        node = draw.choice(draft.nodes)
        share = draw.randint(1, 100)
        for key in BOTH:
            amount = node.allocatable.get(key, 0) * share // 100 - node.allocatable.get(key, 0)
            wanted = draft.free(node, key) + amount + draw.choice((-1, 0, 0, 0, 1))
            set_to(pod, key, max(0, wanted))
