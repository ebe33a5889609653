"""Events of preemption's journal: victims, and the pods they leave for."""

from msgspec import Struct

from shared.events.base import Event
from shared.events.queueing import Members
from shared.model.groups.topology import Path
from shared.model.ids import NO_GANG, AskId, GangId, NodeId, PodId, SignatureId, placement
from shared.model.preemption.victims import NodeVictims, Nominee


class BudgetLeft(Struct, frozen=True, gc=False, array_like=True):
    """Disruptions a budget still allows: allowed minus own evictions not yet in its status."""

    budget: int
    left: int


class BudgetNamed(Struct, frozen=True, gc=False, array_like=True):
    """Pods whose evictions a budget's status counts already: they cost it nothing more."""

    budget: int
    pods: bytes


class SpareMembers(Struct, frozen=True, gc=False, array_like=True):
    """How many pods may leave a group that keeps its minimum; others leave with all the rest."""

    gang: GangId
    left: int


class QueueUse(Struct, frozen=True, gc=False, array_like=True):
    """What the pods of a queue, and of those below it, use without those that leave already."""

    queue: str
    amounts: tuple[tuple[str, int], ...]


class DryRunAsked(Event, frozen=True, gc=False):
    """Each shard answers with its best candidates. `taken` are victims of other preemptors.
    `others` are pods of the same signature that want a node each after `pod`, in this order.
    `spare`: of each group that keeps its minimum. `used`, for a pod in a queue if any queue has a
    guarantee: victims are limited by it. `claims` is as in PreemptAsked.
    """

    ask: AskId
    pod: PodId
    sig: SignatureId
    budgets: tuple[BudgetLeft, ...] = ()
    taken: bytes = b""
    others: bytes = b""
    named: tuple[BudgetNamed, ...] = ()
    spare: tuple[SpareMembers, ...] = ()
    used: tuple[QueueUse, ...] = ()
    claims: bool = False

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class VictimsAsked(Event, frozen=True, gc=False):
    """Extenders choose the victims: these are the candidates that the shards found."""

    ask: AskId
    pod: PodId
    candidates: tuple[NodeVictims, ...]

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class NominateAsked(Event, frozen=True, gc=False):
    """The chosen candidate; the owning shard validates it in one step. `claims` is as in
    PreemptAsked: victims may have any priority.
    """

    ask: AskId
    pod: PodId
    sig: SignatureId
    shard: int
    node: NodeId
    victims: bytes
    claims: bool = False

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard),)


class GangDryRunAsked(Event, frozen=True, gc=False):
    """Each shard answers with places for up to `needed` of these members, tried one after the
    other. `domain`: only in this topology domain of the `levels`. The other fields are as in
    DryRunAsked.
    """

    ask: AskId
    gang: GangId
    needed: int
    members: tuple[Members, ...]
    budgets: tuple[BudgetLeft, ...] = ()
    taken: bytes = b""
    named: tuple[BudgetNamed, ...] = ()
    levels: tuple[str, ...] = ()
    domain: Path = ()
    spare: tuple[SpareMembers, ...] = ()
    used: tuple[QueueUse, ...] = ()

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class GangNominateAsked(Event, frozen=True, gc=False):
    """A shard's part of the places chosen for a gang: it charges all of them or none. Together the
    parts of one step are as many as are needed.
    """

    ask: AskId
    gang: GangId
    shard: int
    nominees: tuple[Nominee, ...]

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard),)


class GangRoomMade(Event, frozen=True, gc=False):
    """The last victim of all members has left: the gang should be tried now."""

    ask: AskId
    gang: GangId

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class GangPreemptionClosed(Event, frozen=True, gc=False):
    """No preemption (any more) for this gang; `message` as in PreemptionClosed."""

    ask: AskId
    gang: GangId
    message: str

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class NominationCleared(Event, frozen=True, gc=False):
    """Release the nomination's charge."""

    ask: AskId
    pod: PodId
    shard: int

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard),)


class EvictAsked(Event, frozen=True, gc=False):
    """Evict these victims; all but the last in parallel, then the last. `beyond`: those of them
    that their budgets did not allow when they were chosen. `gang`: they are what is left of a gang
    below its minCount, and leave for no pod. `claimed_for`: the queue that gets its guarantee, if
    the pod claims.
    """

    ask: AskId
    pod: PodId
    node: NodeId
    victims: bytes
    beyond: bytes = b""
    gang: GangId = NO_GANG
    claimed_for: str = ""

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class EvictRecalled(Event, frozen=True, gc=False):
    """Do not send those of the ask's evictions that have not been sent yet."""

    ask: AskId

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class PreemptionOpened(Event, frozen=True, gc=False):
    """The pod waits for its victims to leave. `message` is the postFilter part of its message."""

    ask: AskId
    pod: PodId
    node: NodeId
    victims: bytes
    message: str = ""

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class PreemptionClosed(Event, frozen=True, gc=False):
    """No preemption (any more) for this pod; `message` is the postFilter part of its message.
    `again_ms`: when a pod that is protected now may be a victim; 0: there is none.
    """

    ask: AskId
    pod: PodId
    message: str
    again_ms: int = 0

    def to(self) -> tuple[str, ...]:
        return ("queueing",)
