"""Events of the world journal: facts in the mesh's own numbers, addressed to the services that need
them.
"""

from shared.events.base import Event
from shared.model.cluster_objects import (
    ClusterObject,
    DeviceObject,
    Pairs,
    ProvisioningRequest,
    Queue,
    StorageObject,
)
from shared.model.groups.below_minimum import BelowMinimum
from shared.model.groups.topology import Topology
from shared.model.groups.trees import GroupTree
from shared.model.ids import NO_GANG, EffectId, GangId, SignatureId, placement
from shared.model.objects import Node, PartMinimum, PodSpec


class SignatureDefined(Event, frozen=True, gc=False):
    """From here on `sig` means `spec`."""

    sig: SignatureId
    spec: PodSpec

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement", "permit", "preemption")


class SignaturesQueued(Event, frozen=True, gc=False):
    """How pods of these signatures are queued if users' plugins change it: `orders` in place of the
    priority, and `gates`, the reasons why they are not queued yet (empty: they are), parallel to
    `sigs`. Sent with a signature; `again` for all that a new configuration changes, followed by the
    pending pods whose gate changes.
    """

    sigs: bytes
    orders: bytes
    gates: tuple[str, ...]
    again: bool = False

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement")


class SignatureRetired(Event, frozen=True, gc=False):
    """No live pod has this signature any more."""

    sig: SignatureId

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement", "permit", "preemption")


class PodsPending(Event, frozen=True, gc=False):
    """Unassigned pods of one signature, in order of arrival. `gang` 0: none; its `key` is sent
    while its group does not exist.

    Sent again for a known pod when its signature, gang or gates changed.
    """

    sig: SignatureId
    ids: bytes
    gang: GangId = NO_GANG
    ordered_ms: int = 0
    gated: bool = False
    key: str = ""

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class PodsRelabelled(Event, frozen=True, gc=False):
    """Live pods, pending and assigned, with a new signature from here on (`sigs` parallel to `ids`)
    that differs only in identity (namespace, labels, terminating): an inter-pod rule reads more of
    it than before, or it changed.
    """

    ids: bytes
    sigs: bytes

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement", "preemption")


class PodsNamed(Event, frozen=True, gc=False):
    """Names, uids and resourceVersions of pods, for requests to the API."""

    ids: bytes
    uids: str
    names: str
    revisions: bytes
    namespace: str = "default"

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class PodsAssigned(Event, frozen=True, gc=False):
    """Pods that the cluster shows on nodes of one shard, ours and others'; `sigs`, `nodes` parallel
    to `ids`.
    """

    shard: int
    ids: bytes
    sigs: bytes
    nodes: bytes

    def to(self) -> tuple[str, ...]:
        return (
            placement(self.shard),
            "queueing",
            "permit",
            "preemption",
            "binding",
        )


class PodsStarted(Event, frozen=True, gc=False):
    """When pods on nodes of one shard were started there; `starts_ms` (since the epoch) parallel to
    `ids`. Sent again with PodsAssigned; a pod without a start time counts as started last.
    """

    shard: int
    ids: bytes
    starts_ms: bytes

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard),)


class PodsGone(Event, frozen=True, gc=False):
    """Pods that no longer exist. `deleted`: members of gangs that were deleted; other members
    finished, as far as is known.
    """

    ids: bytes
    deleted: bytes = b""

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement", "permit", "preemption", "binding")


class NodesSet(Event, frozen=True, gc=False):
    """Nodes of one shard, added or changed (`ids` parallel to `nodes`)."""

    shard: int
    ids: bytes
    nodes: tuple[Node, ...]

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard), "binding")


class ImagesCounted(Event, frozen=True, gc=False):
    """The number of all nodes of the cluster, and how many have each of these images (image
    numbers, and `holders` parallel to them; 0 also for one that no pod names any more). Sent only
    with several shards.
    """

    nodes: int
    images: bytes = b""
    holders: bytes = b""

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class NodesGone(Event, frozen=True, gc=False):
    """Nodes of one shard that no longer exist."""

    shard: int
    ids: bytes

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard), "binding")


class BudgetSet(Event, frozen=True, gc=False):
    """A disruption budget's remaining count; `disrupted` are pods its status already counts."""

    budget: int
    allowed: int
    name: str = ""
    disrupted: bytes = b""
    covered: bytes = b""

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class BudgetGone(Event, frozen=True, gc=False):
    """A disruption budget was deleted."""

    budget: int

    def to(self) -> tuple[str, ...]:
        return ("preemption", "placement")


class BudgetCovers(Event, frozen=True, gc=False):
    """More pods that a budget covers (by labels); shards count violations with it."""

    budget: int
    ids: bytes

    def to(self) -> tuple[str, ...]:
        return ("preemption", "placement")


class UnitJoined(Event, frozen=True, gc=False):
    """Pods of a group whose pods preemption evicts together or not at all, all of `priority`.
    `least`: those above this minimum leave one by one; 0: all leave together.
    """

    gang: GangId
    priority: int
    ids: bytes
    least: int = 0

    def to(self) -> tuple[str, ...]:
        return ("preemption", "placement")


class MinimumRunTime(Event, frozen=True, gc=False):
    """Pods are no victims of preemption before they have run for `run_ms` (0: they may be)."""

    ids: bytes
    run_ms: int

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class MembersLost(Event, frozen=True, gc=False):
    """The places of these pods are kept for their group for `hold_ms`; PodsGone names them in the
    same record. 0, without pods: no place is kept for the group any more.
    """

    gang: GangId
    ids: bytes
    hold_ms: int

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class GangSet(Event, frozen=True, gc=False):
    """A pod group exists; `version` rises with each change of it. `minimums` are those of parts of
    it, `priority` is that of a PodGroup of scheduling.k8s.io, and `provisioning` the class with
    which the autoscaler is asked for nodes. A PodGroup in CompositePodGroups is tried with all
    others of its `root`, which is sent after them with its `tree`; `problem`: why that is not
    tried. `below_minimum`: what becomes of it when fewer run.
    """

    gang: GangId
    key: str
    min_count: int
    timeout_ms: int
    version: int
    topology: Topology | None = None
    minimums: tuple[PartMinimum, ...] = ()
    priority: int | None = None
    provisioning: str = ""
    root: GangId = NO_GANG
    tree: GroupTree = ()
    problem: str = ""
    below_minimum: BelowMinimum | None = None

    def to(self) -> tuple[str, ...]:
        return ("queueing", "permit")


class GangGone(Event, frozen=True, gc=False):
    """A pod group was deleted."""

    gang: GangId

    def to(self) -> tuple[str, ...]:
        return ("queueing", "permit")


class ObjectsSet(Event, frozen=True, gc=False):
    """Other objects of the cluster, added or changed. No service decides by them."""

    objects: tuple[ClusterObject, ...]


class ObjectsGone(Event, frozen=True, gc=False):
    """Other objects that no longer exist, by uid."""

    uids: str


class StorageSet(Event, frozen=True, gc=False):
    """Claims, volumes, classes and other storage objects, added or changed. Of several of a kind
    and name the one sent last counts.
    """

    objects: tuple[StorageObject, ...]

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class StorageGone(Event, frozen=True, gc=False):
    """Storage objects that no longer exist, by uid."""

    uids: str

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class DevicesSet(Event, frozen=True, gc=False):
    """Device classes, slices and resource claims, added or changed."""

    objects: tuple[DeviceObject, ...]

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class DevicesGone(Event, frozen=True, gc=False):
    """Such objects that no longer exist, by uid."""

    uids: str

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class ProvisioningSet(Event, frozen=True, gc=False):
    """Our requests to the cluster autoscaler, added or changed."""

    objects: tuple[ProvisioningRequest, ...]

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class ProvisioningGone(Event, frozen=True, gc=False):
    """Requests to the cluster autoscaler that no longer exist, by uid."""

    uids: str

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class NamespacesSet(Event, frozen=True, gc=False):
    """Labels of namespaces, by name, and names (joined) without an object: sent once an inter-pod
    rule selects namespaces by their labels. Of other namespaces only the name is known.
    """

    labels: tuple[tuple[str, Pairs], ...] = ()
    gone: str = ""

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class QueuesSet(Event, frozen=True, gc=False):
    """All queues from now on, by name: a tree without a fault. Sent before any pod of a new queue;
    pods get their queue with a new signature.
    """

    queues: tuple[Queue, ...]

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement", "preemption")


class WorldListed(Event, frozen=True, gc=False):
    """`complete` False: the first list is open, and no pod is placed before all of it is known (as
    kube-scheduler waits for its caches); True: it is known, and this process leads.
    """

    complete: bool

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class WorldRestored(Event, frozen=True, gc=False):
    """The cluster was restored from a backup, so known changes may be undone. `listed` False: it is
    being listed again; True: it is known, and all pods have new numbers.
    """

    listed: bool

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class Happened(Event, frozen=True, gc=False):
    """Cluster events of these kinds (shared/model/cluster_event_kinds.py) have happened. Only kinds
    that a user's plugin may wait for are named.
    """

    kinds: tuple[str, ...]

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class ListApplied(Event, frozen=True, gc=False):
    """A list was applied; the deletions derived from it are in the events beside this one."""

    kind: str
    derived_deletes: int


class ListDoubted(Event, frozen=True, gc=False):
    """A list would have deleted more than half of a kind: a second list must confirm it."""

    kind: str
    derived_deletes: int


class ListAsked(Event, frozen=True, gc=False):
    """Effect `effect`: list all objects of one kind again; its outcome is a complete list."""

    effect: EffectId
    kind: str


class SourceAdvanced(Event, frozen=True, gc=False):
    """The revision up to which observations are consumed: the next owner resumes there."""

    revision: int
