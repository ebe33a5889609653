"""Backup and restore of a simulated cluster, as with `etcdctl snapshot`."""

from msgspec import Struct, structs

from shared.model.objects import Budget, Gang, Node
from shared.simulated.cluster import SimCluster
from shared.simulated.history import Happened, Kind
from shared.simulated.pod import SimPod

BUSY = 100_000
"""The revisions between the backup and the next change: other clients write, too."""
BUMP = 1_000_000


class Backup(Struct):
    """Everything that a restore puts back. The world must have no other objects."""

    revision: int
    pods: dict[str, tuple[str, int, int, str, bool]]  # uid -> name, batch, revision, node, gated
    nodes: dict[str, Node]
    budgets: dict[str, Budget]
    gangs: dict[str, Gang]


def back_up(cluster: SimCluster) -> Backup:
    """Return a backup of the cluster as it is now."""
    assert not cluster.objects, "volumes are not restored"
    pods = {
        uid: (pod.name, pod.batch, pod.revision, pod.node, pod.gated)
        for uid, pod in cluster.pods.items()
        if not pod.deleting
    }
    backup = Backup(
        cluster.revision, pods, dict(cluster.nodes), dict(cluster.budgets), dict(cluster.gangs)
    )
    cluster.revision += BUSY
    return backup


def restore(cluster: SimCluster, backup: Backup, is_bumped: bool = False) -> None:
    """Restore a backup. `is_bumped`: at a revision above every seen one, with everything compacted
    (as `etcdutl snapshot restore --bump-revision --mark-compacted` does).
    """
    before = cluster.pods
    cluster.revision = cluster.revision + BUMP if is_bumped else backup.revision
    cluster.nodes = dict(backup.nodes)
    # The disruption controller forgets evictions of pods that still exist.
    cluster.budgets = {
        uid: structs.replace(budget, disrupted=()) for uid, budget in backup.budgets.items()
    }
    cluster.gangs = dict(backup.gangs)
    cluster.pods = {}
    for uid, (name, batch, revision, node, gated) in backup.pods.items():
        pod = cluster.pods[uid] = SimPod(uid, name, batch, revision, gated)
        pod.node = node
        old = before.get(uid)
        if old is None or old.node != node:
            _happened(cluster, "restore", uid, node)
    for uid in before:
        if uid not in backup.pods:
            _happened(cluster, "delete", uid, "")
    cluster.restored()


def _happened(cluster: SimCluster, kind: Kind, uid: str, node: str) -> None:
    now = Happened(cluster.revision, cluster.now_ms(), kind, uid, node, "restored")
    cluster.history.append(now)
