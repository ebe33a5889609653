"""Events of permit's journal: gang transactions, and the turns of shards for wide rules."""

from shared.events.base import Event
from shared.events.placement import Shown
from shared.events.queueing import Members
from shared.model.groups.topology import Path, Topology
from shared.model.groups.trees import GroupTree
from shared.model.ids import NO_ATTEMPT, NO_GANG, AttemptId, GangId, placement
from shared.model.pod_rules.rule_counts import SignatureCounts


class OfferAsked(Event, frozen=True, gc=False):
    """Ask each shard how many of these members fit. `preempts`: and whether pods of lower priority
    could leave for the rest. With a `topology`: how many fit in which domain, and in which domains
    the `placed` members are. `needed`: if fewer fit in a domain, the groups are tried in reverse
    order, too. With a `tree` (`leaves` as in GangDispatched): a group that gets too few gives its
    room to the next ones.
    """

    gang: GangId
    attempt: AttemptId
    members: tuple[Members, ...]
    preempts: bool = False
    topology: Topology | None = None
    placed: bytes = b""
    needed: int = 0
    tree: GroupTree = ()
    leaves: tuple[GangId, ...] = ()

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class HoldAsked(Event, frozen=True, gc=False):
    """Hold all of these members on one shard, or none of them. In a `turn` hold as many as fit: it
    is granted for members of `sigs` (int64), with what the other shards have counted for them.
    `domains`: parallel to `members`, the topology domains of the `levels` to hold them in. With a
    `tree` (`leaves` as in GangDispatched) hold the members of groups that are feasible, in domains
    of the shard's choice, or none if the tree is not; `partly`: hold as many as fit, since other
    shards may have room for the rest.
    """

    gang: GangId
    attempt: AttemptId
    shard: int
    members: tuple[Members, ...]
    turn: int = 0
    sigs: bytes = b""
    counts: tuple[SignatureCounts, ...] = ()
    levels: tuple[str, ...] = ()
    domains: tuple[Path, ...] = ()
    tree: GroupTree = ()
    leaves: tuple[GangId, ...] = ()
    partly: bool = False

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard),)


class GangCommitted(Event, frozen=True, gc=False):
    """At least minCount members are held over all shards: binds may start, except those of members
    `with_volumes`, which wait for their shards' VolumesChosen. `shown` is as in GangHeld.
    """

    gang: GangId
    attempt: AttemptId
    ids: bytes
    nodes: bytes
    shards: int = 1
    shown: tuple[Shown, ...] = ()
    with_volumes: bytes = b""

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement", "binding")


class GangReleased(Event, frozen=True, gc=False):
    """The attempt failed; every hold of it is void. `placed` of the `needed` members have a node (0
    and 0: not counted); `reasons` say why the next one has none, with those placed. Both are summed
    over shards. `stale`: the gang changed since the dispatch, or others took the offered room; that
    is no failure. `preemptible`: a shard says that preemption could help. `domain`: with a
    topology, the best domain, which `placed` and `reasons` are about; `domains`: those in which
    preemption may make room, the best first.
    """

    gang: GangId
    attempt: AttemptId
    reasons: tuple[tuple[str, int], ...]
    nodes: int
    stale: bool = False
    preemptible: bool = False
    placed: int = 0
    needed: int = 0
    domain: str = ""
    domains: tuple[Path, ...] = ()

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement")


class GangTimedOut(Event, frozen=True, gc=False):
    """The permit timeout ended: all holds are released, the members wait for another attempt."""

    gang: GangId
    attempt: AttemptId

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement")


class CountsAsked(Event, frozen=True, gc=False):
    """Begin a turn of a shard: the other shards count what the rules of these signatures read, and
    place no pod that these rules count until they have a turn themselves. `sigs`: int64. `gang` and
    `attempt`: the turn is for members of this attempt, and HoldAsked grants it; `domain`: in this
    topology domain of the `levels`.
    """

    turn: int
    shard: int
    sigs: bytes
    gang: GangId = NO_GANG
    attempt: AttemptId = NO_ATTEMPT
    levels: tuple[str, ...] = ()
    domain: Path = ()

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class TurnGranted(Event, frozen=True, gc=False):
    """All other shards have counted: the shard may place the pods. `counts`: their sums."""

    turn: int
    shard: int
    sigs: bytes
    counts: tuple[SignatureCounts, ...]

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard),)


class RulesChanged(Event, frozen=True, gc=False):
    """Pods that rules count on several nodes came to a shard or left it: pods that these rules kept
    off other shards may fit there.
    """

    shard: int

    def to(self) -> tuple[str, ...]:
        return ("placement",)
