"""Events of queueing's journal: what is tried next, in which batch, what waits, and why."""

from msgspec import Struct

from shared.events.base import Event
from shared.model.groups.provisioning import ProvisioningWrite
from shared.model.groups.topology import Path, Topology
from shared.model.groups.trees import GroupTree
from shared.model.ids import (
    NO_GANG,
    NO_SIGNATURE,
    AskId,
    AttemptId,
    GangId,
    PodId,
    SignatureId,
    placement,
)


class Members(Struct, frozen=True, gc=False, array_like=True):
    """Gang members of one signature."""

    sig: SignatureId
    ids: bytes


class Minimum(Struct, frozen=True, gc=False, array_like=True):
    """At least `least` of the members of these signatures."""

    least: int
    sigs: tuple[SignatureId, ...]


class Dispatched(Event, frozen=True, gc=False):
    """One attempt of pods of one signature at one shard. `attempt` is unique in the epoch.

    `urgent` marks leftovers of another shard and preemptors with a freed nomination. The pods are
    within the guarantee of their queue (`claims`), or above it while there are guarantees
    (`borrows`).
    """

    attempt: AttemptId
    shard: int
    sig: SignatureId
    ids: bytes
    urgent: bool = False
    claims: bool = False
    borrows: bool = False

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard),)


class GangDispatched(Event, frozen=True, gc=False):
    """A complete gang is sent to permit. `lane`: it has the lane to itself. `preempts`: pods of
    lower priority may be evicted for it. `placed`: with a topology, the members that have a node.
    `minimums`: of parts of the gang, whose first members come first. The root of CompositePodGroups
    has a `tree`, with what each group needs besides its members that have a node, and `leaves`
    parallel to `members`: the PodGroups that these are of, in the order of the tree.
    `minimum_only`: other gangs wait for their minimum, so no more than `min_count` start now.
    """

    attempt: AttemptId
    gang: GangId
    version: int
    min_count: int
    members: tuple[Members, ...]
    timeout_ms: int
    lane: bool = False
    preempts: bool = False
    topology: Topology | None = None
    placed: bytes = b""
    minimums: tuple[Minimum, ...] = ()
    tree: GroupTree = ()
    leaves: tuple[GangId, ...] = ()
    minimum_only: bool = False

    def to(self) -> tuple[str, ...]:
        return ("permit",)


class GangGrows(Event, frozen=True, gc=False):
    """Members above a gang's minCount waited for gangs that lack theirs, and are tried now."""

    gang: GangId


class PreemptAsked(Event, frozen=True, gc=False):
    """A pod refused by every shard that preemption could help, and `others` of its signature, to be
    helped after it one by one. Asks with higher `priority` are served first. If any queue has a
    guarantee: the `queue` of the pods, what each uses of it (`amounts`), and whether they claim:
    with all of them the queue uses no more than it is guaranteed.
    """

    pod: PodId
    sig: SignatureId
    attempt: AttemptId
    others: bytes = b""
    priority: int = 0
    queue: str = ""
    amounts: tuple[tuple[str, int], ...] = ()
    claims: bool = False

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class GangPreemptAsked(Event, frozen=True, gc=False):
    """A gang without room that preemption could help: places for `needed` of these members, or
    none. With a topology: all in one of these `domains` of the `levels`, tried in this order.
    `queue` of the first member as in PreemptAsked.
    """

    gang: GangId
    needed: int
    members: tuple[Members, ...]
    levels: tuple[str, ...] = ()
    domains: tuple[Path, ...] = ()
    queue: str = ""

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class GangPreemptRecalled(Event, frozen=True, gc=False):
    """The group changed or was deleted: its preemption is void."""

    gang: GangId

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class PlaceGiven(Event, frozen=True, gc=False):
    """The place that a gang keeps at this shard under the number `ask` is for this member, which is
    dispatched next.
    """

    shard: int
    ask: AskId
    pod: PodId

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard),)


class Parked(Event, frozen=True, gc=False):
    """Pods that fit on no shard now, with kube-scheduler's message (summed over shards)."""

    sig: SignatureId
    ids: bytes
    message: str

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class TryFailed(Event, frozen=True, gc=False):
    """Trying these pods ended in this error: they are tried again after a backoff."""

    sig: SignatureId
    ids: bytes
    message: str

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class ReasonsAsked(Event, frozen=True, gc=False):
    """Every shard that refuses this signature checks it again and reports why (Refused without
    pods).
    """

    sig: SignatureId

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class Confirmed(Event, frozen=True, gc=False):
    """Pods that still wait, with the reasons that all shards have just confirmed."""

    sig: SignatureId
    ids: bytes
    message: str

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class QuotaReached(Event, frozen=True, gc=False):
    """Ready pods of a signature, or a gang, wait because a queue is at its max. `ids` and `sig` are
    empty for a gang: its members get the message with its next GangWaits.
    """

    message: str
    sig: SignatureId = NO_SIGNATURE
    ids: bytes = b""
    gang: GangId = NO_GANG

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class Woken(Event, frozen=True, gc=False):
    """Parked pods of a signature move to active, or to backoff until `until_ms` (packed)."""

    sig: SignatureId
    ids: bytes
    until_ms: bytes = b""
    reason: str = ""


class Activated(Event, frozen=True, gc=False):
    """Pods whose backoff ended."""

    ids: bytes


class Settled(Event, frozen=True, gc=False):
    """An attempt ended: every pod of it is reserved, refused or deleted."""

    attempt: AttemptId


class GangWaits(Event, frozen=True, gc=False):
    """Why a gang's members are not tried: kube-scheduler's gate message."""

    gang: GangId
    message: str


class GangFailed(Event, frozen=True, gc=False):
    """Trying the gang ended in this error: its members are no group that kube-scheduler takes. It
    is tried again after a backoff.
    """

    gang: GangId
    message: str


class GangShown(Event, frozen=True, gc=False):
    """The condition of the gang's PodGroup is to say why it has no nodes (`is_error`: that trying
    it ended in an error); an empty message: that it was scheduled, which it says for good.
    """

    gang: GangId
    key: str
    message: str
    is_error: bool = False

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class GangShrunk(Event, frozen=True, gc=False):
    """A gang of which only `running` members are left after its grace goes on with them: its
    minCount counts as satisfied until none is left.
    """

    gang: GangId
    running: int


class GangEvictAsked(Event, frozen=True, gc=False):
    """The members that are left of a gang below its minCount are to be evicted after its grace."""

    gang: GangId
    ids: bytes

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class ProvisioningAsked(Event, frozen=True, gc=False):
    """The cluster autoscaler is to be asked for the nodes of a gang that has no room."""

    gang: GangId
    request: ProvisioningWrite

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class ProvisioningWithdrawn(Event, frozen=True, gc=False):
    """The request to the cluster autoscaler is to be deleted: it ended, or its gang started,
    changed or was deleted (0: the number of the gang is not known).
    """

    gang: GangId
    request: ProvisioningWrite

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class LaneTaken(Event, frozen=True, gc=False):
    """A gang that failed twice has the lane until `until_ms`."""

    gang: GangId
    until_ms: int


class LaneFreed(Event, frozen=True, gc=False):
    """The lane is open again."""

    gang: GangId
