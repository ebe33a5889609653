"""The reason for which a gang's members wait, by brute force over whole objects: their workload,
the number of members, room for all members that exist.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.live.checker.cluster_state import Pod, World
from tests.live.checker.fits import FINISHED, requests, why_not

TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
ON_PERMIT = "waiting for minCount pods from a gang to be waiting on permit"


def truths(world: World, pod: Pod) -> list[str]:
    """Return the messages that the pod may have in this world; empty if it has nothing
    to wait for.
    """
    ref, namespace = pod["spec"]["workloadRef"], pod["metadata"]["namespace"]
    policy = world.group(namespace, ref["name"], ref["podGroup"])
    if not world.has_workload(namespace, ref["name"]):
        return [f'waiting for pods\'s workload "{ref["name"]}" to appear in scheduling queue']
    if policy is None:
        return [f'pod group "{ref["podGroup"]}" doesn\'t exist for a workload "{ref["name"]}"']
    if "gang" not in policy:
        return [world.message(pod)]
    members = list(_members(world, namespace, ref))
    least = policy["gang"]["minCount"]
    if len(members) < least:
        return [TOO_FEW]
    if any(one["spec"].get("nodeName") for one in members):
        return [world.message(pod)]
    return [together(world, members, least), ON_PERMIT]


def of_last_try(message: str) -> str:
    """Return the message of a gang without the word that its time is over."""
    gang, timed_out, rest = message.partition(" timed out after ")
    said = rest.partition(": ")[2]
    if not timed_out or not said:
        return message
    return said if said.startswith("0/") else f"{gang}: {said}"


def least_of(world: World, pod: Pod) -> int:
    """Return how many members must have a node if one has; 0 for a pod without a gang."""
    ref = pod["spec"].get("workloadRef")
    if not ref:
        return 0
    policy = world.group(pod["metadata"]["namespace"], ref["name"], ref["podGroup"]) or {}
    return int(policy.get("gang", {}).get("minCount", 0))


def gang_of(pod: Pod) -> str:
    """Return the gang of a member."""
    ref = pod["spec"]["workloadRef"]
    parts = (ref["name"], ref["podGroup"], ref.get("podGroupReplicaKey", ""))
    return "/".join(filter(None, (pod["metadata"]["namespace"], *parts)))


def _members(world: World, namespace: str, ref: Mapping[str, str]) -> Iterator[Pod]:
    for one in world.pods.values():
        spec, meta = one["spec"], one["metadata"]
        if spec.get("workloadRef") != ref or meta["namespace"] != namespace:
            continue
        finished = one.get("status", {}).get("phase") in FINISHED
        if not (finished or spec.get("schedulingGates") or meta.get("deletionTimestamp")):
            yield one


def _rules(pod: Pod) -> str:
    """Return the fields of a pod that decide about nodes."""
    spec = pod["spec"]
    names = ("nodeSelector", "affinity", "tolerations")
    ports = [one.get("ports") for one in spec["containers"]]
    return repr([sorted(requests(pod).items()), ports, *map(spec.get, names)])


def together(world: World, members: Sequence[Pod], least: int) -> str:
    """Return the message if fewer than this many of these identical pods fit at once; empty if they
    fit.
    """
    assert len({_rules(one) for one in members}) == 1, "members that differ are beyond this"
    used = {name: Counter(world.used(name)) for name in world.nodes}
    beside: dict[str, list[Any]] = {
        name: list(world.on.get(name, {}).values()) for name in world.nodes
    }
    for number, one in enumerate(members):
        reasons: Counter[str] = Counter()
        for name, node in world.nodes.items():
            said = why_not(one, node, used[name], beside[name])
            if not said:
                used[name].update(requests(one))
                beside[name].append(one)
                break
            reasons.update(said)
        else:
            text = world.sentence(reasons)
            if number == 0 or number >= least:
                return "" if number else text
            count = f"{number} of {least} members have a node; {least - number} more"
            return f"gang {gang_of(one)}: {count}: {text.partition(': ')[2]}"
    return ""
