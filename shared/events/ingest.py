"""Events of the world journal: facts in the mesh's own numbers, routed to whom they concern."""

from shared.events.base import Event
from shared.model.cluster_objects import ClusterObject, Pairs, StorageObject
from shared.model.ids import placement
from shared.model.objects import Node, PodSpec


class SignatureDefined(Event, frozen=True, gc=False):
    """From here on `sig` stands for `spec`."""

    sig: int
    spec: PodSpec

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement", "permit", "preemption")


class SignaturesQueued(Event, frozen=True, gc=False):
    """How pods of these signatures are queued where plugins of users have a say: `orders` in place
    of the priority, and `gates`, why they are not queued yet ("" = they are), parallel to `sigs`.
    Told with a signature; `again` for all that another configuration changes, and the pending pods
    whose gate it changes follow.
    """

    sigs: bytes
    orders: bytes
    gates: tuple[str, ...]
    again: bool = False

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement")


class SignatureRetired(Event, frozen=True, gc=False):
    """No live pod has this signature any more."""

    sig: int

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement", "permit", "preemption")


class PodsPending(Event, frozen=True, gc=False):
    """Unassigned pods of one signature, in order of arrival. `gang` 0 = none; its `key` is told
    while its group does not exist.

    Sent again for a known pod when its signature, gang or gates changed.
    """

    sig: int
    ids: bytes
    gang: int = 0
    ordered_ms: int = 0
    gated: bool = False
    key: str = ""

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class PodsRelabelled(Event, frozen=True, gc=False):
    """Live pods, pending and assigned, whose signature is another from here on (`sigs` parallel to
    `ids`), but only in who the pod is (namespace, labels, terminating): because a rule between
    pods looks at more of that than before, or because they changed.
    """

    ids: bytes
    sigs: bytes

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement")


class PodsNamed(Event, frozen=True, gc=False):
    """Names, uids and resourceVersions of pods, for whoever speaks to the API."""

    ids: bytes
    uids: str
    names: str
    revisions: bytes
    namespace: str = "default"

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class PodsAssigned(Event, frozen=True, gc=False):
    """Pods the cluster shows on nodes of one shard, ours and foreign alike; `sigs`, `nodes`
    parallel to `ids`.
    """

    shard: int
    ids: bytes
    sigs: bytes
    nodes: bytes

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard), "queueing", "permit", "preemption", "binding")


class PodsStarted(Event, frozen=True, gc=False):
    """When pods on nodes of one shard were started there; `starts_ms` (since the epoch) parallel to
    `ids`. Told again with PodsAssigned; who is not told of counts as started last.
    """

    shard: int
    ids: bytes
    starts_ms: bytes

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard),)


class PodsGone(Event, frozen=True, gc=False):
    """Pods that no longer exist."""

    ids: bytes

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
    """Of all nodes of the cluster: how many there are, and how many have each of these images
    (their numbers, and `holders` parallel to them; 0 also for one that no pod names any more). Told
    with several shards alone.
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


class GangSet(Event, frozen=True, gc=False):
    """A pod group exists; `version` rises with each change of it."""

    gang: int
    key: str
    min_count: int
    timeout_ms: int
    version: int

    def to(self) -> tuple[str, ...]:
        return ("queueing", "permit")


class GangGone(Event, frozen=True, gc=False):
    """A pod group was deleted."""

    gang: int

    def to(self) -> tuple[str, ...]:
        return ("queueing", "permit")


class ObjectsSet(Event, frozen=True, gc=False):
    """Other objects of the cluster, added or changed. No service decides by them."""

    objects: tuple[ClusterObject, ...]


class ObjectsGone(Event, frozen=True, gc=False):
    """Other objects that no longer exist, by uid."""

    uids: str


class StorageSet(Event, frozen=True, gc=False):
    """Claims, volumes and what makes them, added or changed. Of several of a kind and name the one
    that was told last counts.
    """

    objects: tuple[StorageObject, ...]

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class StorageGone(Event, frozen=True, gc=False):
    """Some of those that no longer exist, by uid."""

    uids: str

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class NamespacesSet(Event, frozen=True, gc=False):
    """Labels of namespaces, by name, and names (joined) that no object has any more: told once a
    rule between pods selects namespaces by their labels. Of others nothing but the name is known.
    """

    labels: tuple[tuple[str, Pairs], ...] = ()
    gone: str = ""

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class WorldListed(Event, frozen=True, gc=False):
    """`complete` False: a world is being listed for the first time, and nothing is to be placed
    before all of it is known (as kube-scheduler waits for its caches); True: it is known.
    """

    complete: bool

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class WorldRestored(Event, frozen=True, gc=False):
    """The cluster was restored from a backup, so what was known of it may be undone. `listed`
    False: it begins to be listed again; True: it is known, and all pods have other numbers.
    """

    listed: bool

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class Happened(Event, frozen=True, gc=False):
    """Cluster events of these kinds (shared/model/cluster_event_kinds.py) have happened. Only kinds
    are named for which a user's plugin may have pods wait.
    """

    kinds: tuple[str, ...]

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class ListApplied(Event, frozen=True, gc=False):
    """A bracket closed; the derived deletes are in the events beside this one."""

    kind: str
    derived_deletes: int


class ListDoubted(Event, frozen=True, gc=False):
    """A bracket would have deleted more than half of a kind: a second list must confirm it."""

    kind: str
    derived_deletes: int


class ListAsked(Event, frozen=True, gc=False):
    """Effect `effect`: list all objects of one kind again; its outcome is a complete bracket."""

    effect: int
    kind: str


class SourceAdvanced(Event, frozen=True, gc=False):
    """Revision up to which the outside has been consumed: where the next owner resumes."""

    revision: int


IngestEvent = (
    SignatureDefined
    | SignaturesQueued
    | SignatureRetired
    | PodsPending
    | PodsRelabelled
    | PodsNamed
    | PodsAssigned
    | PodsStarted
    | PodsGone
    | NodesSet
    | ImagesCounted
    | NodesGone
    | BudgetSet
    | BudgetGone
    | BudgetCovers
    | GangSet
    | GangGone
    | ObjectsSet
    | ObjectsGone
    | StorageSet
    | StorageGone
    | NamespacesSet
    | WorldListed
    | WorldRestored
    | ListApplied
    | ListDoubted
    | ListAsked
    | SourceAdvanced
    | Happened
)
