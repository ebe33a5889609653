"""Refuses a gang that could not start even on the empty cluster, before the run begins."""

from collections.abc import Callable, Iterable

from shared.kubernetes.objects.errors import WorldError
from shared.model.columns import split
from shared.model.objects import PODS, Gang, Node, PodSpec
from shared.model.world import World

GPU_MILLI = "gpu (milli)"

Amounts = dict[str, int]


def check_gangs(world: World, where: Callable[[Gang], tuple[str, str]]) -> None:
    """Raise WorldError at `where` (file and object, field) for the first gang that is larger than
    the cluster. Sums over all nodes are compared, so a gang that passes may still not fit.
    """
    total = _total(world.nodes)
    members = _members(world)
    for gang in world.gangs:
        if gang.is_in_tree:
            continue  # Its tree may start without it.
        specs = members.get(gang.key, [])
        least = {PODS: gang.min_count}
        if len(specs) >= gang.min_count:  # otherwise it waits for members, which is not an error
            least = _least(specs, gang.min_count)
        for resource, amount in sorted(least.items()):
            if amount > total.get(resource, 0):
                what, field = where(gang)
                raise WorldError(
                    what,
                    field,
                    f"{gang.min_count} members ask for {amount} {resource}, "
                    f"the whole cluster has {total.get(resource, 0)}",
                )


def _total(nodes: Iterable[Node]) -> Amounts:
    total: Amounts = {GPU_MILLI: 0}
    for node in nodes:
        for resource, amount in node.allocatable:
            total[resource] = total.get(resource, 0) + amount
        total[GPU_MILLI] += node.gpu_count * 1000
    return total


def _members(world: World) -> dict[str, list[PodSpec]]:
    """Return the specs of all members by gang, one entry per pod."""
    found: dict[str, list[PodSpec]] = {}
    for arrival in world.arrivals:
        pods = arrival.pods
        if pods.gang:
            found.setdefault(pods.gang, []).extend([pods.spec] * len(split(pods.names)))
    return found


def _least(specs: list[PodSpec], count: int) -> Amounts:
    """Return for each resource the smallest sum that any `count` of the members request."""
    asked: dict[str, list[int]] = {}
    for spec in specs:
        amounts = dict(spec.requests) | {PODS: 1}
        if spec.gpu is not None:
            amounts[GPU_MILLI] = spec.gpu.milli * spec.gpu.count
        for resource, amount in amounts.items():
            asked.setdefault(resource, []).append(amount)
    # Members that do not request a resource count as 0, hence the missing ones.
    return {
        resource: sum(sorted([0] * (len(specs) - len(amounts)) + amounts)[:count])
        for resource, amounts in asked.items()
    }
