"""Turns single pods, in order, into arrivals: adjacent equal pods become one column."""

from collections.abc import Iterable

from msgspec import Struct

from shared.events.observed import PodsSeen
from shared.kubernetes.objects.labels import HOSTNAME_LABEL, ZONE_LABEL
from shared.model.columns import join, pack
from shared.model.objects import Node, PodSpec
from shared.model.world import Arrival

ZONES = ("zone-a", "zone-b", "zone-c")


class Pod(Struct, frozen=True, kw_only=True):
    """One pod of a world: its spec, its arrival, and its lifetime once bound. `start_ms` (since the
    epoch) is when it started on its node; 0 = not started.
    """

    name: str
    spec: PodSpec
    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = "default"
    gang: str = ""
    gang_count: int = 0
    gated: bool = False
    terminating: bool = False
    owner: str = ""
    node: str = ""
    uid: str = ""
    at_ms: int = 0
    lifetime_ms: int = 0
    start_ms: int = 0


def uid_of(pod: Pod) -> str:
    """Return the pod's uid; without one it is made from namespace and name."""
    return pod.uid or f"{pod.namespace}.{pod.name}"


def arrivals_of(pods: Iterable[Pod]) -> tuple[Arrival, ...]:
    """Return arrivals ordered by `at_ms`, then in the given order; runs of equal pods share one
    column.
    """
    ordered = sorted(pods, key=lambda pod: pod.at_ms)
    found: list[Arrival] = []
    run: list[Pod] = []
    for pod in ordered:
        if run and not _alike(run[0], pod):
            found.append(_arrival(run))
            run = []
        run.append(pod)
    if run:
        found.append(_arrival(run))
    return tuple(found)


def _alike(one: Pod, other: Pod) -> bool:
    return (
        one.at_ms == other.at_ms
        and one.lifetime_ms == other.lifetime_ms
        and (one.gang, one.gang_count) == (other.gang, other.gang_count)
        and one.gated == other.gated
        and one.terminating == other.terminating
        and one.owner == other.owner
        and one.namespace == other.namespace
        and one.labels == other.labels
        and bool(one.node) == bool(other.node)
        and one.spec == other.spec
    )


def _arrival(run: list[Pod]) -> Arrival:
    first = run[0]
    seen = PodsSeen(
        spec=first.spec,
        uids=join(uid_of(pod) for pod in run),
        names=join(pod.name for pod in run),
        revisions=b"",
        namespace=first.namespace,
        labels=first.labels,
        nodes=join(pod.node for pod in run) if first.node else "",
        gang=first.gang,
        gang_count=first.gang_count,
        ordered_ms=first.at_ms,
        gated=first.gated,
        terminating=first.terminating,
        owner=first.owner,
    )
    starts_ms = [pod.start_ms for pod in run] if first.node else []
    return Arrival(
        at_ms=first.at_ms,
        pods=seen,
        lifetime_ms=first.lifetime_ms,
        starts_ms=pack(starts_ms) if any(starts_ms) else b"",
    )


def plain_node(
    name: str,
    row: int,
    allocatable: dict[str, int],
    gpu_count: int = 0,
    gpu_model: str = "",
    labels: dict[str, str] | None = None,
) -> Node:
    """Return a node of a trace or a flood; row `row` (from 0) is in zone `row` modulo 3."""
    all_labels = {HOSTNAME_LABEL: name, ZONE_LABEL: ZONES[row % len(ZONES)]} | (labels or {})
    if gpu_model:
        all_labels["nvidia.com/gpu.product"] = gpu_model
    return Node(
        uid=f"node.{name}",
        name=name,
        allocatable=tuple(sorted(allocatable.items())),
        labels=dict(sorted(all_labels.items())),
        gpu_count=gpu_count,
        gpu_model=gpu_model,
    )
