"""Queues of pods: which queue a pod is in, what it uses there, and the rules of their tree."""

from collections import Counter
from collections.abc import Iterable, Mapping

from shared.model.cluster_objects import Queue
from shared.model.objects import CPU, GPU, MEMORY, PODS, PodSpec

QUEUE_LABEL = "muster.io/queue"
"""The label of a pod, or of its namespace, that names its queue."""
DEFAULT_QUEUE = "default"
"""The queue of the pods that name none, if it exists."""
THOUSANDTHS = (CPU, GPU)
"""Resources that are counted in thousandths: a pod may ask for a part of a device."""

Fault = tuple[str, str]
"""The field of a Queue, and the rule that it breaks."""
Amounts = dict[str, int]


def queue_name(labels: Mapping[str, str], of_namespace: str, known: Mapping[str, Queue]) -> str:
    """Return the queue that a pod's label names, or its namespace's (`of_namespace`), or the
    default one; empty for none. A named queue may not exist: then its pods wait.
    """
    default = DEFAULT_QUEUE if DEFAULT_QUEUE in known else ""
    return labels.get(QUEUE_LABEL) or of_namespace or default


def amounts(spec: PodSpec) -> Amounts:
    """Return what a pod uses of its queue: cpu and GPUs in thousandths, bytes or counts of all
    else, and one of the resource `pods`.
    """
    used = {name: amount for name, amount in spec.requests if amount}
    if spec.gpu is not None:
        used[GPU] = spec.gpu.milli * spec.gpu.count
    used[PODS] = 1
    return used


def tree_faults(queues: Iterable[Queue]) -> dict[str, Fault]:
    """Return the queues that keep these from being a tree, by name, with the rules they break."""
    known = {one.name: one for one in queues}
    faults: dict[str, Fault] = {}
    rooted: set[str] = set()
    for name in sorted(known):
        path: dict[str, None] = {}
        while name and name in known and name not in rooted and name not in path:
            path[name] = None
            name = known[name].parent
        if name in path:
            loop = list(path)[list(path).index(name) :]
            text = " -> ".join((*loop, name))
            faults.update((one, ("spec.parent", f"makes a cycle: {text}")) for one in loop)
        elif name and name not in known:
            faults[list(path)[-1]] = ("spec.parent", f"{name} is no Queue")
        rooted.update(path)
    return faults or _guarantee_faults(known)


def granted(queues: Iterable[Queue]) -> dict[str, Amounts]:
    """Return what each queue of a tree is guaranteed, by name: what it says itself, or if that is
    less what those below it are guaranteed together.
    """
    found: dict[str, Amounts] = {}
    tree = chains(queues)
    for name in sorted(tree, key=lambda name: -len(tree[name])):
        least, below = dict(tree[name][0].guaranteed), found.setdefault(name, {})
        found[name] = {
            one: max(least.get(one, 0), below.get(one, 0)) for one in sorted(least | below)
        }
        if tree[name][0].parent:
            above = found.setdefault(tree[name][0].parent, {})
            for one, amount in found[name].items():
                above[one] = above.get(one, 0) + amount
    return found


def _guarantee_faults(known: Mapping[str, Queue]) -> dict[str, Fault]:
    """Return the queues of a tree that cannot give what they, or those below them, are guaranteed.
    A queue that names no guarantee for a resource is guaranteed what those below it are together.
    """
    faults: dict[str, Fault] = {}
    if not any(one.guaranteed for one in known.values()):
        return faults
    found = granted(known.values())
    below: dict[str, Counter[str]] = {name: Counter() for name in known}
    for name, one in known.items():
        if one.parent:
            below[one.parent].update(found[name])
    for name, one in known.items():
        for resource in sorted(dict(one.guaranteed).keys() | below[name].keys()):
            fault = _guarantee_fault(one, resource, below[name][resource])
            if fault is not None:
                faults.setdefault(name, fault)
    return faults


def _guarantee_fault(queue: Queue, resource: str, children: int) -> Fault | None:
    """Return the fault of a queue below which `children` of a resource are guaranteed."""
    most, least = dict(queue.max).get(resource), dict(queue.guaranteed).get(resource)
    below = f"and the queues below it are guaranteed {shown_amount(resource, children)}"
    if least is not None and least < children:
        rule = f"is {shown_amount(resource, least)}, {below}"
        return f"spec.guaranteed.{resource}", rule
    if most is None or most >= (children if least is None else least):
        return None
    if least is None:
        return f"spec.max.{resource}", f"is {shown_amount(resource, most)}, {below}"
    figures = f"{shown_amount(resource, least)}, above its max {shown_amount(resource, most)}"
    return f"spec.guaranteed.{resource}", f"is {figures}"


def chains(queues: Iterable[Queue]) -> dict[str, tuple[Queue, ...]]:
    """Return each queue of a tree without faults, by name, followed by those above it."""
    known = {one.name: one for one in queues}
    found: dict[str, tuple[Queue, ...]] = {}
    for name in sorted(known):
        chain = [known[name]]
        while chain[-1].parent:
            chain.append(known[chain[-1].parent])
        found[name] = tuple(chain)
    return found


def shown_amount(resource: str, amount: int) -> str:
    """Return an amount as a quantity of Kubernetes: 500m, 64, 1536Mi."""
    if resource in THOUSANDTHS:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource != MEMORY and not resource.startswith(("hugepages-", "ephemeral-")):
        return str(amount)
    for suffix, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if amount and amount % size == 0:
            return f"{amount // size}{suffix}"
    return str(amount)


def full_message(queue: str, resource: str, used: int, most: int, kept: int = 0) -> str:
    """Return why a pod of the queue, or of one below it, waits; `kept`: for guarantees."""
    figures = f"{shown_amount(resource, used)}/{shown_amount(resource, most)}"
    figures += f", {shown_amount(resource, kept)} kept for guarantees" if kept else ""
    return f"queue {queue} is at its max for {resource} ({figures})"


def missing_message(queue: str) -> str:
    """Return why a pod of a queue that does not exist waits."""
    return f"queue {queue} does not exist"
