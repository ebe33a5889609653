"""The results of a run for the checker: journals by epoch and the cluster's history."""

import hashlib
from collections.abc import Mapping, Sequence

from muster.checker.filters.inter_pod_rules import named
from muster.checker.inputs.history import ClusterHistory, PodTruth, Post
from shared.model.cluster_objects import Namespace
from shared.model.columns import split
from shared.model.world import Arrival
from shared.simulated.cluster import SimCluster


def digest(records: Mapping[str, Sequence[bytes]]) -> str:
    """Return a hash of all records of all journals."""
    total = hashlib.blake2b(digest_size=16)
    for journal in sorted(records):
        total.update(journal.encode())
        for payload in records[journal]:
            total.update(len(payload).to_bytes(4, "little"))
            total.update(payload)
    return total.hexdigest()


def history_of(
    cluster: SimCluster,
    extra: Sequence[Arrival],
    posts: Sequence[Post],
    undone: Sequence[tuple[float, float]] = (),
) -> ClusterHistory:
    """Return the cluster's history in the checker's types."""
    history = ClusterHistory(nodes=list(cluster.nodes.values()), posts=list(posts))
    history.undone = list(undone)
    history.objects = list(cluster.objects.values())
    history.claim_changes = cluster.claim_changes
    arrivals = (*cluster.world.arrivals, *extra)
    is_ruled = any(arrival.pods.spec.has_rules for arrival in arrivals)
    for arrival in arrivals:
        _created(history, arrival, is_ruled)
    for one in cluster.world.objects:
        if isinstance(one, Namespace):
            history.namespaces[one.name] = one.labels
    for change in cluster.history:
        pod = history.pods.get(change.uid)
        if pod is None:
            continue
        match change.kind:
            case "create":
                pod.node = change.node
            case "bind" | "late-bind" | "foreign-bind":
                pod.node = change.node
                pod.by_mesh = change.kind != "foreign-bind"
                history.binds.append((pod.uid, pod.node, pod.by_mesh))
                history.bound_at[pod.uid] = change.revision
            case "evict":
                pod.evicted = True
                history.evicted.append(pod.uid)
            case "delete":
                pod.deleted = True
            case "restore":
                pod.node, pod.by_mesh = change.node, False
                pod.deleted = pod.evicted = False
                history.binds = [bind for bind in history.binds if bind[0] != pod.uid]
            case _:
                pass
    for uid, live in cluster.pods.items():
        history.pods[uid].gated = live.gated
    for uid in list(history.pods):
        if not history.pods[uid].deleted and uid not in cluster.pods:
            del history.pods[uid]
    return history


def _created(history: ClusterHistory, arrival: Arrival, is_ruled: bool) -> None:
    """Add the pods of an arrival. `is_ruled`: inter-pod rules read identities, so each spec has
    one.
    """
    pods = arrival.pods
    for uid, name in zip(split(pods.uids), split(pods.names), strict=True):
        spec = pods.spec
        if is_ruled:
            spec = named(spec, pods.namespace, pods.labels, pods.terminating)
        history.pods[uid] = PodTruth(
            uid, pods.namespace, name, spec, gang=pods.gang, gated=pods.gated
        )
