"""Events of queueing's journal: what is tried next, in which batch, and what waits and why."""

from msgspec import Struct

from shared.events.base import Event
from shared.model.ids import placement


class Members(Struct, frozen=True, gc=False, array_like=True):
    """Gang members of one signature."""

    sig: int
    ids: bytes


class Dispatched(Event, frozen=True, gc=False):
    """One attempt of pods of one signature at one shard. `attempt` is unique in the epoch.

    `urgent` marks leftovers of another shard and preemptors with a freed nomination.
    """

    attempt: int
    shard: int
    sig: int
    ids: bytes
    urgent: bool = False

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard),)


class GangDispatched(Event, frozen=True, gc=False):
    """A complete gang goes to permit; `lane` = it has the lane to itself; `preempts`: pods of lower
    priority may be evicted for it.
    """

    attempt: int
    gang: int
    version: int
    min_count: int
    members: tuple[Members, ...]
    timeout_ms: int
    lane: bool = False
    preempts: bool = False

    def to(self) -> tuple[str, ...]:
        return ("permit",)


class PreemptAsked(Event, frozen=True, gc=False):
    """A pod refused everywhere, for which removing pods of lower priority could make room; and
    `others` of its signature, to be helped after it one by one. Whose `priority` is higher is
    helped before other signatures.
    """

    pod: int
    sig: int
    attempt: int
    others: bytes = b""
    priority: int = 0

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class GangPreemptAsked(Event, frozen=True, gc=False):
    """A gang for which there is no room, and some if pods of lower priority left: places for
    `needed` of these members, or none.
    """

    gang: int
    needed: int
    members: tuple[Members, ...]

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class GangPreemptRecalled(Event, frozen=True, gc=False):
    """The group is another one, or gone: what preemption does for it is void."""

    gang: int

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class Parked(Event, frozen=True, gc=False):
    """Pods that no shard can take now, with kube-scheduler's message (summed over shards)."""

    sig: int
    ids: bytes
    message: str

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class TryFailed(Event, frozen=True, gc=False):
    """Trying these pods came to an error, and to which: they are tried again after a backoff."""

    sig: int
    ids: bytes
    message: str

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class ReasonsAsked(Event, frozen=True, gc=False):
    """Every shard that refuses this signature: look again, and say why (Refused without pods)."""

    sig: int

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class Confirmed(Event, frozen=True, gc=False):
    """Pods that still wait, and why, as all shards have just said again."""

    sig: int
    ids: bytes
    message: str

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class Woken(Event, frozen=True, gc=False):
    """Parked pods of a signature move to active, or to backoff until `until_ms` (packed)."""

    sig: int
    ids: bytes
    until_ms: bytes = b""
    reason: str = ""


class Activated(Event, frozen=True, gc=False):
    """Pods whose backoff ended."""

    ids: bytes


class Settled(Event, frozen=True, gc=False):
    """An attempt came to its end: every pod of it is reserved, refused or gone."""

    attempt: int


class GangWaits(Event, frozen=True, gc=False):
    """Why a gang's members are not tried: kube-scheduler's gate message."""

    gang: int
    message: str


class LaneTaken(Event, frozen=True, gc=False):
    """A gang that failed twice has the lane until `until_ms`."""

    gang: int
    until_ms: int


class LaneFreed(Event, frozen=True, gc=False):
    """The lane is open again."""

    gang: int


QueueingEvent = (
    Dispatched
    | GangDispatched
    | PreemptAsked
    | GangPreemptAsked
    | GangPreemptRecalled
    | Parked
    | ReasonsAsked
    | Confirmed
    | Woken
    | Activated
    | Settled
    | GangWaits
    | LaneTaken
    | LaneFreed
    | TryFailed
)
