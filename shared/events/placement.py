"""Events of a placement journal: picks with their reservations, refusals, offers, nominations."""

from msgspec import Struct

from shared.events.base import Event
from shared.model.claims import ClaimChoice
from shared.model.groups.topology import DomainOffer, Path, Scoring
from shared.model.ids import (
    NO_ATTEMPT,
    START,
    AskId,
    AttemptId,
    EffectId,
    GangId,
    NodeId,
    PodId,
    Position,
    SignatureId,
)
from shared.model.objects import PodSpec
from shared.model.pod_rules.rule_counts import SignatureCounts
from shared.model.preemption.post_filter import FIRST, around
from shared.model.preemption.victims import Nominee
from shared.model.volumes import Choice


class Reserved(Event, frozen=True, gc=False):
    """Pods of one attempt with their nodes; the shard charged them in the same step.

    `nodes` int64 ids, `totals` weighted scores (int16, or int64 if the profile's weights need it),
    `devices` int64 bit masks (GPU pods only), all parallel to `ids` and in decision order.
    `feasible` counts nodes before the first pick; `runner_up` is the best total among the other
    nodes then (-1: none); `world` is the shard's position in the world journal. `examined`: if
    searches end early, by how many nodes the next one starts later. `volumes` (of a single pod)
    must be bound before it. `spec` is set if users' plugins act when the pods are bound.
    `extended`: what extenders added to the total. `claims` (of a single pod) must be written
    before it.
    """

    shard: int
    attempt: AttemptId
    sig: SignatureId
    ids: bytes
    nodes: bytes
    totals: bytes
    feasible: int
    world: Position
    devices: bytes = b""
    runner_up: int = -1
    examined: int = 0
    volumes: tuple[Choice, ...] = ()
    spec: PodSpec | None = None
    extended: int = 0
    claims: tuple[ClaimChoice, ...] = ()

    def to(self) -> tuple[str, ...]:
        return ("queueing", "binding")


class ExtendersAsked(Event, frozen=True, gc=False):
    """Effect: call extenders about these nodes for one pod. Meanwhile the shard places no other
    pod. `examined` is as in Reserved; `alone`: this is its nominated node, tried first. `gang`: the
    pod is a member of this gang (else -1), and `attempt` the gang's.
    """

    ask: EffectId
    attempt: AttemptId
    sig: SignatureId
    pod: PodId
    nodes: bytes
    examined: int = 0
    alone: bool = False
    gang: GangId = GangId(-1)


class VolumesChosen(Event, frozen=True, gc=False):
    """One member of a committed gang: `volumes` must be bound and `claims` written before it
    (columns of one row and `spec` as in Reserved). `attempt` is the gang's.
    """

    shard: int
    ids: bytes
    nodes: bytes
    volumes: tuple[Choice, ...]
    spec: PodSpec | None = None
    claims: tuple[ClaimChoice, ...] = ()
    attempt: AttemptId = NO_ATTEMPT

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class VolumesBound(Event, frozen=True, gc=False):
    """All claims of these reserved pods are bound, so the pods can be. `world`, with several
    shards: the position of the world journal from which facts show it.
    """

    ids: bytes
    nodes: bytes
    world: Position = START

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class VolumesFailed(Event, frozen=True, gc=False):
    """The claims of a reserved pod were not bound, and why: the pod must be given up."""

    pod: PodId
    node: NodeId
    reason: str

    def to(self) -> tuple[str, ...]:
        return ("binding",)


class Refused(Event, frozen=True, gc=False):
    """Pods of an attempt for which this shard has no node; attempt 0 without pods: the shard
    checked a refused signature again.

    `reasons` are (message, nodes) pairs sorted by message; `nodes` is how many nodes the shard has;
    `resolvable` counts nodes where removing pods could help (Unschedulable); `preemptible`: one of
    those has a pod of lower priority. `examined` is as in Reserved. `error`: trying them ended in
    an error, which says nothing about nodes; then there are no reasons. `rejected`:
    kube-scheduler's own PreFilter plugins reject the pod, so that its PostFilter fails.
    """

    shard: int
    attempt: AttemptId
    sig: SignatureId
    ids: bytes
    reasons: tuple[tuple[str, int], ...]
    nodes: int
    world: Position
    resolvable: int = 0
    preemptible: bool = False
    examined: int = 0
    error: str = ""
    rejected: bool = False

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class Improved(Event, frozen=True, gc=False):
    """Signatures that this shard refused and that fit a node now, or that preemption could not help
    and could now.

    Empty `sigs` only record that changed nodes were checked in vain.
    """

    shard: int
    sigs: bytes
    world: Position

    def to(self) -> tuple[str, ...]:
        return ("queueing",) if self.sigs else ()


class ShardDigest(Event, frozen=True, gc=False):
    """A shard's free amounts, for routing: cpu (milli), memory (bytes), gpu (milli), nodes."""

    shard: int
    nodes: int
    free_cpu_milli: int
    free_memory_bytes: int
    free_gpu_milli: int

    def to(self) -> tuple[str, ...]:
        return ("queueing", "permit")


class GangOffered(Event, frozen=True, gc=False):
    """How many of each member group fit this shard, tried in order on a trial table. `reasons` are
    those of the first group that is short, with all that fit placed. `preemptible` is as in
    Refused, for the groups that are short. `wide`: signatures (int64) of members that need a turn:
    their rules, or rules that count them, read pods of other shards, so the counts are guesses.
    With a topology, `domains` have the counts by domain, `counts` and `reasons` are of the best of
    them, and `homes` are the domains of members that have a node here. With a tree, `whole` counts
    only groups that are feasible on this shard alone, where that differs from `counts`; if it has
    topologies, `homes` are, parallel to the tree, the values of each group's label that its pods
    have here. `kept`: how many places of lost members it keeps for the gang.
    """

    shard: int
    gang: GangId
    attempt: AttemptId
    counts: tuple[int, ...]
    reasons: tuple[tuple[str, int], ...] = ()
    nodes: int = 0
    preemptible: bool = False
    wide: bytes = b""
    domains: tuple[DomainOffer, ...] = ()
    homes: tuple[Path, ...] = ()
    scoring: Scoring | None = None
    whole: tuple[int, ...] = ()
    kept: int = 0

    def to(self) -> tuple[str, ...]:
        return ("permit",)


class Shown(Struct, frozen=True, gc=False, array_like=True):
    """Pods of one spec, for plugins that act when they are bound."""

    ids: bytes
    spec: PodSpec


class MemberVolumes(Struct, frozen=True, gc=False, array_like=True):
    """A gang member's volume choices with its node; `spec` is as in Reserved."""

    pod: PodId
    choices: tuple[Choice, ...]
    spec: PodSpec | None = None


class MemberClaims(Struct, frozen=True, gc=False, array_like=True):
    """What is written for a gang member's resource claims; `spec` is as in Reserved."""

    pod: PodId
    choices: tuple[ClaimChoice, ...]
    spec: PodSpec | None = None


class GangHeld(Event, frozen=True, gc=False):
    """Members held in one step (columns as in Reserved); never released by the shard itself.
    `shown`: members at whose bind users' plugins or extenders act; `volumes`, `claims`: members
    with chosen volumes or devices, which binding gets by VolumesChosen only. `homes`: as in
    GangOffered, with these.
    """

    shard: int
    gang: GangId
    attempt: AttemptId
    ids: bytes
    sigs: bytes
    nodes: bytes
    totals: bytes
    world: Position
    devices: bytes = b""
    shown: tuple[Shown, ...] = ()
    volumes: tuple[MemberVolumes, ...] = ()
    homes: tuple[Path, ...] = ()
    claims: tuple[MemberClaims, ...] = ()

    def to(self) -> tuple[str, ...]:
        return ("permit",)


class GangRefused(Event, frozen=True, gc=False):
    """This shard cannot hold all requested members (in a turn: none of them) and holds none.
    `placed`: how many of them would fit, in order, before the one that has these `reasons`.
    `uncounted`: members need a turn for which the other shards have counted, so try the gang again.
    """

    shard: int
    gang: GangId
    attempt: AttemptId
    reasons: tuple[tuple[str, int], ...]
    nodes: int
    world: Position
    placed: int = 0
    uncounted: bool = False

    def to(self) -> tuple[str, ...]:
        return ("permit",)


PREEMPTION = ""  # no plugin says that
AS_BY_DEFAULT = around(FIRST, PREEMPTION)


class Candidate(Struct, frozen=True, gc=False, array_like=True):
    """One node on which removing `victims` makes room (dry run with reprieve).

    `violations` counts victims beyond their budgets; `highest`, `priority_sum` and
    `earliest_start_ms` are the keys of kube-scheduler's pickOneNodeForPreemption.
    """

    node: NodeId
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
    """A shard's best candidates for one preemptor, best first; empty: preemption cannot help.

    For several equal preemptors `series` has instead the candidates that each would get after the
    ones before. If it is too short, preemption cannot help the rest, or (`cut`) was not tried yet.
    If a profile has users' PostFilter plugins, `rank` is the place of the plugin that found these.
    `said`: the text of each plugin there if none found any, in order: PREEMPTION means
    DefaultPreemption's text for `reasons`; empty: AS_BY_DEFAULT. If extenders choose victims, these
    are all candidates, for `pod` alone, and `lower` runs parallel. `protected_until_ms`: without
    candidates, when a pod that its minimum run time protects may be a victim; 0: there is none.
    """

    shard: int
    ask: AskId
    pod: PodId
    candidates: tuple[Candidate, ...]
    reasons: tuple[tuple[str, int], ...] = ()
    nodes: int = 0
    series: tuple[Candidate, ...] = ()
    cut: bool = False
    rank: int = 0
    said: tuple[str, ...] = ()
    lower: tuple[LowerPods, ...] = ()
    protected_until_ms: int = 0

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class Nominated(Event, frozen=True, gc=False):
    """The shard validated and charged the nomination; the victims may be evicted now. `name`: the
    node's, if the pod's message tells it. `claims`: pods of other queues leave the place free
    whatever their priority.
    """

    shard: int
    ask: AskId
    pod: PodId
    sig: SignatureId
    node: NodeId
    victims: bytes
    name: str = ""
    claims: bool = False

    def to(self) -> tuple[str, ...]:
        return ("preemption", "queueing")


class NominationStale(Event, frozen=True, gc=False):
    """The node changed so that the chosen victims no longer suffice, or no longer exist. `freed`:
    one of them left by itself, so there may be room without victims.
    """

    shard: int
    ask: AskId
    pod: PodId
    freed: bool = False

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class Place(Struct, frozen=True, gc=False, array_like=True):
    """A place for one more member of `group` (counted from 0, as asked), after all places before
    it. A candidate without victims is free room.
    """

    group: int
    candidate: Candidate


class PlacesFound(Event, frozen=True, gc=False):
    """A shard's places for a gang, each after those before it: as many as needed, or all there are.
    `reasons` say why the next member gets none.
    """

    shard: int
    ask: AskId
    gang: GangId
    places: tuple[Place, ...]
    reasons: tuple[tuple[str, int], ...] = ()
    nodes: int = 0

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class GangNominated(Event, frozen=True, gc=False):
    """The shard validated and charged all of these together; `victims` are those without which they
    would not all fit. Evictions depend on the other shards too.
    """

    shard: int
    ask: AskId
    gang: GangId
    nominees: tuple[Nominee, ...]

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class GangNominationStale(Event, frozen=True, gc=False):
    """The nodes changed so that these places do not exist together any more: none is charged."""

    shard: int
    ask: AskId
    gang: GangId

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class PlaceKept(Event, frozen=True, gc=False):
    """The place of a lost member (`pod`) is kept for its group until `until_ms`, as a nomination
    with the number `ask`.
    """

    shard: int
    ask: AskId
    gang: GangId
    pod: PodId
    sig: SignatureId
    node: NodeId
    until_ms: int

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class NominationReady(Event, frozen=True, gc=False):
    """The last victim left: the preemptor should be tried on this shard now."""

    shard: int
    ask: AskId
    pod: PodId
    node: NodeId

    def to(self) -> tuple[str, ...]:
        return ("queueing", "preemption")


class NominationLost(Event, frozen=True, gc=False):
    """The space or the preemptor is gone; evictions not sent yet are recalled. `refused`: all
    victims have left, and extenders do not let the preemptor have the node.
    """

    shard: int
    ask: AskId
    pod: PodId
    reason: str
    refused: bool = False

    def to(self) -> tuple[str, ...]:
        return ("queueing", "preemption")


class Released(Event, frozen=True, gc=False):
    """Reservations given back by this shard after an outcome that says so."""

    ids: bytes


class TurnAsked(Event, frozen=True, gc=False):
    """Pods of these signatures wait for a turn of this shard: their rules, or rules that count
    them, read pods of other shards. `sigs`: int64.
    """

    shard: int
    sigs: bytes

    def to(self) -> tuple[str, ...]:
        return ("permit",)


class RulesCounted(Event, frozen=True, gc=False):
    """What the rules of the signatures of another shard's turn count on this shard's nodes."""

    shard: int
    turn: int
    counts: tuple[SignatureCounts, ...]

    def to(self) -> tuple[str, ...]:
        return ("permit",)


class TurnEnded(Event, frozen=True, gc=False):
    """This shard has decided about all pods of its turn. `moved`: pods that rules count on several
    nodes came or left meanwhile.
    """

    shard: int
    turn: int
    moved: bool

    def to(self) -> tuple[str, ...]:
        return ("permit",)


class CountsChanged(Event, frozen=True, gc=False):
    """Pods that rules count on several nodes came to this shard or left it without a turn: facts,
    and reservations that failed.
    """

    shard: int

    def to(self) -> tuple[str, ...]:
        return ("permit",)
