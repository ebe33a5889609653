"""Events of a placement journal: picks with their reservations, refusals, offers, nominations."""

from msgspec import Struct

from shared.events.base import Event
from shared.model.objects import PodSpec
from shared.model.post_filter import FIRST, around
from shared.model.victims import Nominee
from shared.model.volumes import Choice


class Reserved(Event, frozen=True, gc=False):
    """Pods of one attempt with their nodes; the shard has subtracted them in the same step.

    `nodes` int64 ids, `totals` weighted scores (int16, or int64 where the profile's weights ask for
    it), `devices` int64 bit masks (GPU pods only), all parallel to `ids` and in decision order.
    `feasible` counts nodes before the first pick, `runner_up` is the best total among the other
    nodes then (-1 none), `world` the position of the world journal the shard had applied.
    `examined`: where searches end early, by how many nodes the next one begins later. `volumes` (of
    one pod alone) are to be bound before it. `spec` is told where plugins of users act when the
    pods are bound. `extended` is what extenders added to the total.
    """

    shard: int
    attempt: int
    sig: int
    ids: bytes
    nodes: bytes
    totals: bytes
    feasible: int
    world: int
    devices: bytes = b""
    runner_up: int = -1
    examined: int = 0
    volumes: tuple[Choice, ...] = ()
    spec: PodSpec | None = None
    extended: int = 0

    def to(self) -> tuple[str, ...]:
        return ("queueing", "binding")


class ExtendersAsked(Event, frozen=True, gc=False):
    """Extenders are to judge these nodes for one pod; an effect. Meanwhile the shard places nobody
    else. `examined` as in Reserved; `alone`: it is its nominated node, tried first. `gang`: the pod
    is a member of that one (else -1), and `attempt` the gang's.
    """

    ask: int
    attempt: int
    sig: int
    pod: int
    nodes: bytes
    examined: int = 0
    alone: bool = False
    gang: int = -1


class VolumesChosen(Event, frozen=True, gc=False):
    """One member of a gang that permit committed: `volumes` are to be bound before it (columns of
    one and `spec` as in Reserved).
    """

    shard: int
    ids: bytes
    nodes: bytes
    volumes: tuple[Choice, ...]
    spec: PodSpec | None = None

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class VolumesBound(Event, frozen=True, gc=False):
    """All claims of these reserved pods are bound: now they can be. `world`, with several shards:
    the position of the world journal from which on facts say so.
    """

    ids: bytes
    nodes: bytes
    world: int = 0

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class VolumesFailed(Event, frozen=True, gc=False):
    """The claims of a reserved pod were not bound, and why: it is to be given up."""

    pod: int
    node: int
    reason: str

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class Refused(Event, frozen=True, gc=False):
    """Pods of an attempt for which this shard has no node; attempt 0 without pods: the shard looked
    again at a signature that it refuses.

    `reasons` are (message, nodes) pairs sorted by message; `nodes` is how many nodes the shard
    has; `resolvable` counts nodes where removing pods could help (Unschedulable);
    `preemptible` says that one of those holds a pod of lower priority. `examined` as in Reserved.
    `error`: trying them came to one, which says nothing about nodes; no reasons are given then.
    `rejected`: kube-scheduler's own PreFilter plugins reject the pod, so that its PostFilter fails.
    """

    shard: int
    attempt: int
    sig: int
    ids: bytes
    reasons: tuple[tuple[str, int], ...]
    nodes: int
    world: int
    resolvable: int = 0
    preemptible: bool = False
    examined: int = 0
    error: str = ""
    rejected: bool = False

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class Improved(Event, frozen=True, gc=False):
    """Signatures refused by this shard before and feasible on some node of it now; or that nobody
    could go for, and somebody could now.

    Empty `sigs` only say that changed nodes were looked at in vain; nobody else needs that.
    """

    shard: int
    sigs: bytes
    world: int

    def to(self) -> tuple[str, ...]:
        return ("queueing",) if self.sigs else ()


class ShardDigest(Event, frozen=True, gc=False):
    """What a shard has left, for routing: free cpu (milli), memory (bytes), gpu (milli), nodes."""

    shard: int
    nodes: int
    free_cpu_milli: int
    free_memory_bytes: int
    free_gpu_milli: int

    def to(self) -> tuple[str, ...]:
        return ("queueing", "permit")


class GangOffered(Event, frozen=True, gc=False):
    """How many of each member group this shard could take, tried in order on a trial state.
    `preemptible` as in Refused, of those that are short.
    """

    shard: int
    gang: int
    attempt: int
    counts: tuple[int, ...]
    reasons: tuple[tuple[str, int], ...] = ()
    nodes: int = 0
    preemptible: bool = False

    def to(self) -> tuple[str, ...]:
        return ("permit",)


class Shown(Struct, frozen=True, gc=False, array_like=True):
    """Pods of one spec, told to those who act when they are bound."""

    ids: bytes
    spec: PodSpec


class MemberVolumes(Struct, frozen=True, gc=False, array_like=True):
    """What the claims of a gang's member get with its node; `spec` as in Reserved."""

    pod: int
    choices: tuple[Choice, ...]
    spec: PodSpec | None = None


class GangHeld(Event, frozen=True, gc=False):
    """Members held in one step (columns as in Reserved); never released by the shard itself.
    `shown`: members at whose bind plugins of users or extenders act; `volumes`: members for which
    volumes were chosen, which binding is told by VolumesChosen alone.
    """

    shard: int
    gang: int
    attempt: int
    ids: bytes
    sigs: bytes
    nodes: bytes
    totals: bytes
    world: int
    devices: bytes = b""
    shown: tuple[Shown, ...] = ()
    volumes: tuple[MemberVolumes, ...] = ()

    def to(self) -> tuple[str, ...]:
        return ("permit",)


class GangRefused(Event, frozen=True, gc=False):
    """This shard cannot hold what was asked; it holds nothing of it."""

    shard: int
    gang: int
    attempt: int
    reasons: tuple[tuple[str, int], ...]
    nodes: int
    world: int

    def to(self) -> tuple[str, ...]:
        return ("permit",)


PREEMPTION = ""  # no plugin says that
AS_BY_DEFAULT = around(FIRST, PREEMPTION)


class Candidate(Struct, frozen=True, gc=False, array_like=True):
    """One node on which removing `victims` makes room (dry run with reprieve).

    `violations` counts victims beyond their budgets; `highest`, `priority_sum` and
    `earliest_start_ms` are the keys of kube-scheduler's pickOneNodeForPreemption.
    """

    node: int
    victims: bytes
    violations: int
    highest: int
    priority_sum: int
    earliest_start_ms: int
    generation: int


class LowerPods(Struct, frozen=True, gc=False, array_like=True):
    """Pods on a candidate's node that may be evicted, its victims among them, most important first:
    columns of ids, priorities and starts.
    """

    ids: bytes
    priorities: bytes
    starts_ms: bytes


class CandidatesFound(Event, frozen=True, gc=False):
    """A shard's best candidates for one preemptor, best first; empty = preemption cannot help.

    For several equal preemptors `series` has instead what the first would get, then what the next
    would get after it, and so on. For whom it is too short preemption cannot help, or (`cut`) that
    was not tried out yet. Where a profile has plugins of users at postFilter, `rank` is the place
    there of the one that found these. `said` is what each plugin there says where nobody goes, in
    order: PREEMPTION stands for what DefaultPreemption says of `reasons`; empty = AS_BY_DEFAULT.
    Where extenders have a say
    in who goes these are all candidates there are, for `pod` alone, and `lower` runs parallel.
    """

    shard: int
    ask: int
    pod: int
    candidates: tuple[Candidate, ...]
    reasons: tuple[tuple[str, int], ...] = ()
    nodes: int = 0
    series: tuple[Candidate, ...] = ()
    cut: bool = False
    rank: int = 0
    said: tuple[str, ...] = ()
    lower: tuple[LowerPods, ...] = ()

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class Nominated(Event, frozen=True, gc=False):
    """The shard re-validated and charged the nomination; the victims may be evicted now."""

    shard: int
    ask: int
    pod: int
    sig: int
    node: int
    victims: bytes

    def to(self) -> tuple[str, ...]:
        return ("preemption", "queueing")


class NominationStale(Event, frozen=True, gc=False):
    """The node changed so that the chosen victims no longer suffice, or no longer exist. `freed`:
    one of them left by itself, so there may be room without any.
    """

    shard: int
    ask: int
    pod: int
    freed: bool = False

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class Place(Struct, frozen=True, gc=False, array_like=True):
    """Where one more of a gang's members of `group` (counted from 0, as asked) can be, once all
    places before it are given. A candidate without victims is room that is there by then.
    """

    group: int
    candidate: Candidate


class PlacesFound(Event, frozen=True, gc=False):
    """What a shard has for a gang, each place given those before it: as many as are needed, or all
    there are. `reasons` say why the next member gets none.
    """

    shard: int
    ask: int
    gang: int
    places: tuple[Place, ...]
    reasons: tuple[tuple[str, int], ...] = ()
    nodes: int = 0

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class GangNominated(Event, frozen=True, gc=False):
    """The shard re-validated all of these together and charged them; `victims` are those without
    whom they would not all fit. Whether anybody is evicted the other shards have a say in.
    """

    shard: int
    ask: int
    gang: int
    nominees: tuple[Nominee, ...]

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class GangNominationStale(Event, frozen=True, gc=False):
    """The nodes changed so that these places are not there together any more: none is charged."""

    shard: int
    ask: int
    gang: int

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class NominationReady(Event, frozen=True, gc=False):
    """The last victim left: the preemptor should be tried on this shard now."""

    shard: int
    ask: int
    pod: int
    node: int

    def to(self) -> tuple[str, ...]:
        return ("queueing", "preemption")


class NominationLost(Event, frozen=True, gc=False):
    """The space or the preemptor is gone; evictions not sent yet are recalled. `refused`: all
    victims have left, and extenders do not let the preemptor have the node.
    """

    shard: int
    ask: int
    pod: int
    reason: str
    refused: bool = False

    def to(self) -> tuple[str, ...]:
        return ("queueing", "preemption")


class Released(Event, frozen=True, gc=False):
    """Reservations given back by this shard after an outcome that says so."""

    ids: bytes


PlacementEvent = (
    Reserved
    | ExtendersAsked
    | VolumesChosen
    | VolumesBound
    | VolumesFailed
    | Refused
    | Improved
    | ShardDigest
    | GangOffered
    | GangHeld
    | GangRefused
    | CandidatesFound
    | Nominated
    | NominationStale
    | PlacesFound
    | GangNominated
    | GangNominationStale
    | NominationReady
    | NominationLost
    | Released
)
