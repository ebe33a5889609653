"""The state of one shard: the true part (dumped) and the derived part (rebuilt on load).

True: configuration, nodes, storage, devices, signatures, the pod ledger, the work queue, holds,
nominations, refusals, pods that may still be bound to deleted nodes, and the nodes withheld because
of them; if searches end early, the order of nodes and the start of the next search. Derived: the
node table's sums, pods per priority and node, totals, the kernel's caches.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from services.placement.core.books.ledger import Ledger
from services.placement.core.config import Config
from services.placement.core.placing.work_queue import WorkQueue
from shared.events.observed import ExtendersAnswered
from shared.events.placement import Refused
from shared.machine.core import MachineState
from shared.machine.saved import Derived
from shared.model.claims import ClaimChoice
from shared.model.cluster_objects import Pairs, Queue
from shared.model.columns import I64
from shared.model.ids import (
    BINDING,
    INGEST,
    NO_ATTEMPT,
    NO_GANG,
    PERMIT,
    PREEMPTION,
    QUEUEING,
    AskId,
    AttemptId,
    GangAttempt,
    GangId,
    NodeId,
    PodId,
    Position,
    SignatureId,
)
from shared.model.objects import Node, PodSpec
from shared.model.pod_rules.rule_counts import RuleCount
from shared.model.preemption.queue_limits import Guarantees
from shared.model.preemption.units import Units
from shared.model.profile import default_profile
from shared.model.release import DEFAULT_RELEASE, V1_36
from shared.model.volumes import Choice
from shared.scheduling.claims.live_claims import LiveClaims
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.sampling import NodeTree
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.profile import DEFAULT, Plugins
from shared.scheduling.table.images import Spread
from shared.scheduling.table.table import NodeTable
from shared.scheduling.volumes.storage import Storage

SOURCES = (INGEST, QUEUEING, PERMIT, PREEMPTION, BINDING)
TIE_SEED = 0


class Nomination(Struct):
    """A nomination: space for `pod` on `node`, charged in Filter with devices `mask`.

    `victims` are those still there. `announced`: NominationReady was sent. `lost`: why it must end.
    `gang`: the space belongs to the whole gang; `is_used` while it is held for a member.
    `until_ms`: the space of a lost member, kept for its group until then; 0 for others. `claims`:
    other queues leave room for it whatever their priority.
    """

    ask: AskId
    pod: PodId
    sig: SignatureId
    node: NodeId
    mask: int
    victims: list[PodId]
    announced: bool = False
    lost: str = ""
    gang: GangId = NO_GANG
    is_used: bool = False
    until_ms: int = 0
    claims: bool = False

    @property
    def counts(self) -> bool:
        """Return whether other pods must leave room for it."""
        return not self.lost and not self.is_used


class TableMark(Struct, frozen=True):
    """The table's version when nominations were last checked."""

    restarts: int = -1
    statics: int = -1
    position: int = 0
    moves: int = -1


class Deferred(Struct):
    """A dispatched pod that this shard still charges for an older decision. `claims`, `borrows`: as
    in Dispatched.
    """

    attempt: AttemptId
    sig: SignatureId
    urgent: bool
    claims: bool = False
    borrows: bool = False


class Unsettled(Struct):
    """A pod decided for `node` with this `name`, deleted before the bind was settled. `gang` and
    `attempt` are set while it is only held.
    """

    name: str
    node: NodeId
    gang: GangId = NO_GANG
    attempt: AttemptId = NO_ATTEMPT


class VolumeWait(Struct):
    """A reserved pod that waits until the claims of `choices` are bound, no longer than `until_ms`
    (None: held for a gang that is not committed yet). `shown`: claims that the cluster shows with
    that node.
    """

    node: NodeId
    name: str
    choices: tuple[Choice, ...]
    until_ms: int | None
    shown: tuple[str, ...] = ()


class MemberChoice(Struct, frozen=True):
    """A gang member's volumes and devices on its node, of an attempt; `spec` is set if plugins act
    at its bind.
    """

    node: NodeId
    choices: tuple[Choice, ...]
    spec: PodSpec | None
    claims: tuple[ClaimChoice, ...] = ()
    attempt: AttemptId = NO_ATTEMPT


class OtherShardVolumes(Struct):
    """Volumes chosen for another shard's pod on the node of this `name`. From position `world` of
    the world journal on, facts show the outcome (-1: still open).
    """

    name: str
    choices: tuple[Choice, ...]
    world: int = -1


class Totals(Struct):
    """Capacity and use of the shard: cpu and gpu in milli, memory in bytes."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_milli: int = 0


@dataclass(eq=False, repr=False)
class PlacementState(MachineState):
    """The state of one shard."""

    shard: Derived[int]
    shards: Derived[int] = 1
    config: Config = field(default_factory=Config)
    nodes: dict[NodeId, Node] = field(default_factory=dict)
    spread: Spread | None = None  # image counts of the cluster; only with several shards
    # Labels by name; only once a rule selects by them.
    namespaces: dict[str, Pairs] = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)
    claims: LiveClaims = field(default_factory=LiveClaims)
    volume_waits: dict[PodId, VolumeWait] = field(default_factory=dict)
    # Pods that wait no longer -> why, if it failed.
    volumes_over: dict[PodId, str] = field(default_factory=dict)
    # By open attempt, and of committed members.
    member_choices: dict[GangAttempt, dict[PodId, MemberChoice]] = field(default_factory=dict)
    choices_to_report: dict[PodId, MemberChoice] = field(default_factory=dict)
    # By number of the promise.
    other_shard_volumes: dict[int, OtherShardVolumes] = field(default_factory=dict)
    specs: dict[SignatureId, PodSpec] = field(default_factory=dict)
    orders: dict[SignatureId, int] = field(
        default_factory=dict
    )  # signature -> order by a user's QueueSort
    retired: set[SignatureId] = field(default_factory=set)
    last_sig: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    budgets_more: dict[PodId, tuple[int, ...]] = field(default_factory=dict)
    units: Units = field(default_factory=Units)
    minimum_run_ms: dict[PodId, int] = field(default_factory=dict)
    gone: deque[PodId] = field(default_factory=deque)
    work_queue: WorkQueue = field(default_factory=WorkQueue)
    deferred: dict[PodId, Deferred] = field(default_factory=dict)
    failed: dict[PodId, None] = field(default_factory=dict)
    holds: dict[GangAttempt, I64] = field(default_factory=dict)
    # Gang's hold in a turn, not committed yet -> signatures that were refused during it.
    refused_during_hold: dict[GangAttempt, set[SignatureId]] = field(default_factory=dict)
    nominations: dict[AskId, Nomination] = field(default_factory=dict)
    unsettled: dict[PodId, Unsettled] = field(default_factory=dict)
    withheld: dict[NodeId, Node] = field(default_factory=dict)
    refused: set[SignatureId] = field(default_factory=set)
    hopeless: set[SignatureId] = field(
        default_factory=set
    )  # refused, and preemption does not help them
    improved_nodes: set[NodeId] = field(default_factory=set)
    # Only with several shards: what wide rules count on the others, as of the last turn; ...
    other_counts: dict[SignatureId, tuple[RuleCount, ...]] = field(default_factory=dict)
    rules_moved: bool = False  # ... pods that they count came or left since the last refusal; ...
    maybe_allowed: set[SignatureId] = field(default_factory=set)  # ... or before that; ...
    counts_changed: bool = False  # ... or without a turn, and the others must learn of it
    extender_asks: int = 0  # number of extender calls so far
    # (Gang, attempt) of open attempts -> extenders' answers about members, by signature.
    member_answers: dict[GangAttempt, dict[SignatureId, ExtendersAnswered]] = field(
        default_factory=dict
    )
    # Refused by extenders: signature -> when to retry, and the last refusal.
    extender_retry_ms: dict[SignatureId, int] = field(default_factory=dict)
    extender_refusals: dict[SignatureId, Refused] = field(default_factory=dict)
    # (Signature, node) -> until when preemption avoids the node: extenders refused it, ms.
    extender_vetoes: dict[tuple[SignatureId, NodeId], int] = field(default_factory=dict)
    # Refused signatures whose reasons queueing asked for.
    reasons_wanted: dict[SignatureId, None] = field(default_factory=dict)
    tree: NodeTree | None = None  # the order of nodes; only if searches end early
    start_index: int = 0
    digest: tuple[int, int, int, int] = (0, 0, 0, 0)
    digest_ms: int = 0
    queues: tuple[Queue, ...] = ()

    # By claim or volume, and those that a fact may end.
    waits_on: Derived[dict[tuple[str, str], list[PodId]]] = field(default_factory=dict)
    ended_other_shard_volumes: Derived[list[int]] = field(default_factory=list)
    plugins: Derived[dict[str, Plugins]] = field(init=False)
    plugins_else: Derived[Plugins] = field(init=False)
    table: Derived[NodeTable] = field(init=False)
    kernel: Derived[Kernel] = field(init=False)
    sigs: Derived[dict[SignatureId, Signature]] = field(init=False)
    loads: Derived[dict[SignatureId, tuple[int, int, int]]] = field(init=False)
    row_by_node: Derived[I64] = field(init=False)
    row_by_node_of: Derived[int] = field(init=False)
    sig_pods: Derived[dict[SignatureId, int]] = field(init=False)
    strays: Derived[dict[NodeId, int]] = field(init=False)
    unsettled_on: Derived[dict[str, int]] = field(init=False)
    has_latest_sigs: Derived[bool] = field(init=False)  # the ledger may have latest signatures
    levels: Derived[dict[int, NDArray[np.int32]]] = field(init=False)
    capacity: Derived[Totals] = field(init=False)
    used: Derived[Totals] = field(init=False)
    nomination_of_pod: Derived[dict[PodId, AskId]] = field(init=False)
    # Node, gang or victim -> asks, ascending.
    nominations_on: Derived[dict[NodeId, list[AskId]]] = field(init=False)
    nominations_of: Derived[dict[GangId, list[AskId]]] = field(init=False)
    victims_of: Derived[dict[PodId, list[AskId]]] = field(init=False)
    kept_places: Derived[set[AskId]] = field(init=False)  # those of lost members
    # Nodes whose nominations changed since the last check.
    changed_nomination_nodes: Derived[set[NodeId]] = field(init=False)
    table_mark: Derived[TableMark] = field(init=False)
    guarantees: Derived[Guarantees] = field(init=False)

    def __post_init__(self) -> None:
        super().__init__(SOURCES)
        self.init_derived()

    def init_derived(self) -> None:
        """Reset the derived part to that of a shard without nodes and signatures."""
        release = self.config.release()
        self.plugins = {one.name: Plugins(one, release) for one in self.config.profiles}
        others = DEFAULT
        if release != DEFAULT_RELEASE:
            others = Plugins(default_profile(release), release)
        self.plugins_else = others
        self.table = NodeTable(TIE_SEED)
        self.table.images.set_spread(self.spread)
        self.table.counters.labels_of = self.namespaces
        self.table.storage, self.table.claims = self.storage, self.claims
        self.claims.knows_all = self.shards == 1
        self.claims.follow(release.version)
        self.storage.has_portworx_everywhere = release.version >= V1_36
        for _, plugins in sorted(self.plugins.items()):
            self.table.score_resources(plugins.scored)
            self.table.hand_out(plugins.reserving)
        self.kernel = Kernel()
        self.sigs = {}
        self.loads = {}
        self.row_by_node = np.zeros(0, np.int64)
        self.row_by_node_of = -1
        self.sig_pods = {}
        self.strays = {}
        self.unsettled_on = {}
        self.has_latest_sigs = False
        self.levels = {}
        self.capacity = Totals()
        self.used = Totals()
        self.nomination_of_pod = {}
        self.nominations_on = {}
        self.nominations_of = {}
        self.victims_of = {}
        self.kept_places = set()
        self.changed_nomination_nodes = set()
        self.table_mark = TableMark()
        self.guarantees = Guarantees(self.queues)

    def plugins_of(self, spec: PodSpec) -> Plugins:
        """Return the plugins of the pod's profile."""
        return self.plugins.get(spec.scheduler, self.plugins_else)

    @property
    def world(self) -> Position:
        """Return the position of the world journal that this shard has applied."""
        return self.cursors[INGEST].next

    def free(self) -> tuple[int, int, int, int]:
        """Return the present digest: nodes, free cpu (milli), memory (bytes), gpu (milli)."""
        have, used = self.capacity, self.used
        return (
            len(self.nodes),
            max(0, have.cpu_milli - used.cpu_milli),
            max(0, have.memory_bytes - used.memory_bytes),
            max(0, have.gpu_milli - used.gpu_milli),
        )
