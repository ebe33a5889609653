"""The cluster's own history of a run: pods, nodes, objects, binds and POSTs."""

from dataclasses import dataclass, field

from shared.model.api_outcome import Answer
from shared.model.cluster_objects import ClaimObject, ClusterObject
from shared.model.objects import Node, PodSpec


@dataclass
class Post:
    """One binding POST as the network saw it. Times in seconds since the run began."""

    sent_s: float
    sender: str
    uid: str
    node: str
    revision: int
    way: str
    epoch: int = 1
    landed_s: float | None = None
    answer: Answer | None = None


@dataclass
class PodTruth:
    """A pod in the cluster at the end (or when it was deleted)."""

    uid: str
    namespace: str
    name: str
    spec: PodSpec
    gang: str = ""
    gated: bool = False
    node: str = ""
    by_mesh: bool = False
    deleted: bool = False
    evicted: bool = False


@dataclass
class ClusterHistory:
    """Pods ever, nodes and other objects at the end, and every bind that the API accepted and no
    restore has undone: (uid, node name, ours). `undone`: when the backups were made (s) from which
    the cluster was restored, and when that was. `bound_at`: the revision of each pod's last bind.
    `claim_changes`: revision and uid of each change of a resource claim; None: it was deleted.
    """

    pods: dict[str, PodTruth] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    binds: list[tuple[str, str, bool]] = field(default_factory=list)
    posts: list[Post] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    undone: list[tuple[float, float]] = field(default_factory=list)
    namespaces: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    objects: list[ClusterObject] = field(default_factory=list)
    bound_at: dict[str, int] = field(default_factory=dict)
    claim_changes: list[tuple[int, str, ClaimObject | None]] = field(default_factory=list)

    def accepted(self, epoch: int) -> dict[str, str]:
        """Return uid -> node name of the binds that the API accepted from one epoch's mesh, or from
        the mesh in any epoch without a log of requests.
        """
        if not self.posts:
            return {uid: node for uid, node, ours in self.binds if ours}
        done = [p for p in self.posts if p.answer is Answer.DONE and p.epoch == epoch]
        return {post.uid: post.node for post in done if not self._is_undone(post)}

    def _is_undone(self, post: Post) -> bool:
        """Return whether a restore has undone the bind, or the decision of a later bind."""
        return any(
            post.landed_s is not None and post.landed_s > backup_s and post.sent_s <= restored_s
            for backup_s, restored_s in self.undone
        )
