"""The state of one shard: the true part (dumped) and the derived part (rebuilt on load).

True: configuration, nodes, storage, signatures, the pod ledger, the work queue, holds, nominations,
refusals, pods that may still be bound to deleted nodes, and the nodes withheld because of them; if
searches end early, the order of nodes and the start of the next search. Derived: the node table's
sums, pods per priority and node, totals, the kernel's caches.
"""

from collections import deque

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from services.placement.core.books.ledger import Ledger
from services.placement.core.config import Config
from services.placement.core.placing.work_queue import WorkQueue
from shared.events.observed import ExtendersAnswered
from shared.events.placement import Refused
from shared.machine.core import MachineState
from shared.model.cluster_objects import Pairs
from shared.model.columns import I64
from shared.model.ids import BINDING, INGEST, PERMIT, PREEMPTION, QUEUEING
from shared.model.objects import Node, PodSpec
from shared.model.profile import V1_35, Profile
from shared.model.volumes import Choice
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
    """

    ask: int
    pod: int
    sig: int
    node: int
    mask: int
    victims: list[int]
    announced: bool = False
    lost: str = ""
    gang: int = 0
    is_used: bool = False

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
    """A dispatched pod that this shard still charges for an older decision."""

    attempt: int
    sig: int
    urgent: bool


class Unsettled(Struct):
    """A pod decided for `node` with this `name`, deleted before the bind was settled. `gang` and
    `attempt` are set while it is only held.
    """

    name: str
    node: int
    gang: int = 0
    attempt: int = 0


class VolumeWait(Struct):
    """A reserved pod that waits until the claims of `choices` are bound, no longer than `until_ms`
    (None: held for a gang that is not committed yet). `shown`: claims that the cluster shows with
    that node.
    """

    node: int
    name: str
    choices: tuple[Choice, ...]
    until_ms: int | None
    shown: tuple[str, ...] = ()


class MemberChoice(Struct, frozen=True):
    """A gang member's volumes on its node; `spec` is set if plugins act at its bind."""

    node: int
    choices: tuple[Choice, ...]
    spec: PodSpec | None


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


class PlacementState(MachineState):
    """The state of one shard."""

    def __init__(self, shard: int, shards: int = 1) -> None:
        """Create the state before any event."""
        super().__init__(SOURCES)
        self.shard, self.shards = shard, shards
        self.config = Config()
        self.nodes: dict[int, Node] = {}
        self.spread: Spread | None = None  # image counts of the cluster; only with several shards
        self.namespaces: dict[str, Pairs] = {}  # labels by name; only once a rule selects by them
        self.storage = Storage()
        self.volume_waits: dict[int, VolumeWait] = {}
        self.volumes_over: dict[int, str] = {}  # pods that wait no longer -> why, if it failed
        self.waits_on: dict[tuple[str, str], list[int]] = {}  # by claim or volume; derived
        self.member_choices: dict[tuple[int, int], dict[int, MemberChoice]] = {}  # by open attempt
        self.choices_to_report: dict[int, MemberChoice] = {}  # of committed members
        self.other_shard_volumes: dict[int, OtherShardVolumes] = {}  # by number of the promise
        self.ended_other_shard_volumes: list[int] = []  # those that a fact may end
        self.specs: dict[int, PodSpec] = {}
        self.orders: dict[int, int] = {}  # signature -> order set by a user's QueueSort
        self.retired: set[int] = set()
        self.last_sig = 0
        self.ledger = Ledger()
        self.budgets_more: dict[int, tuple[int, ...]] = {}
        self.gone: deque[int] = deque()
        self.work_queue = WorkQueue()
        self.deferred: dict[int, Deferred] = {}
        self.failed: dict[int, None] = {}
        self.holds: dict[tuple[int, int], I64] = {}
        self.nominations: dict[int, Nomination] = {}
        self.unsettled: dict[int, Unsettled] = {}
        self.withheld: dict[int, Node] = {}
        self.refused: set[int] = set()
        self.hopeless: set[int] = set()  # refused signatures that preemption does not help
        self.improved_nodes: set[int] = set()
        self.extender_asks = 0  # number of extender calls so far
        self.member_answers: dict[tuple[int, int], dict[int, ExtendersAnswered]] = {}
        """(gang, attempt) of open attempts -> extenders' answers about members, by signature."""
        self.extender_retry_ms: dict[
            int, int
        ] = {}  # refused by extenders: signature -> when to retry
        self.extender_refusals: dict[int, Refused] = {}  # their last refusals
        self.extender_vetoes: dict[tuple[int, int], int] = {}
        """(signature, node) -> until when preemption avoids the node: extenders refused it, ms."""
        self.reasons_wanted: dict[
            int, None
        ] = {}  # refused signatures whose reasons queueing asked for
        self.tree: NodeTree | None = None  # the order of nodes; only if searches end early
        self.start_index = 0
        self.digest: tuple[int, int, int, int] = (0, 0, 0, 0)
        self.digest_ms = 0
        self.init_derived()

    def init_derived(self) -> None:
        """Reset the derived part to that of a shard without nodes and signatures."""
        version = self.config.compatibility
        self.plugins = {one.name: Plugins(one, version) for one in self.config.profiles}
        self.plugins_else = DEFAULT if version == V1_35 else Plugins(Profile(), version)
        self.table = NodeTable(TIE_SEED)
        self.table.images.set_spread(self.spread)
        self.table.counters.labels_of = self.namespaces
        self.table.storage = self.storage
        for _, plugins in sorted(self.plugins.items()):
            self.table.score_resources(plugins.scored)
            self.table.hand_out(plugins.reserving)
        self.kernel = Kernel()
        self.sigs: dict[int, Signature] = {}
        self.loads: dict[int, tuple[int, int, int]] = {}
        self.row_by_node: I64 = np.zeros(0, np.int64)
        self.row_by_node_of = -1
        self.sig_pods: dict[int, int] = {}
        self.strays: dict[int, int] = {}
        self.unsettled_on: dict[str, int] = {}
        self.has_latest_sigs = False  # whether the ledger may have latest signatures
        self.levels: dict[int, NDArray[np.int32]] = {}
        self.capacity = Totals()
        self.used = Totals()
        self.nomination_of_pod: dict[int, int] = {}
        self.nominations_on: dict[int, list[int]] = {}  # node -> asks, ascending
        self.nominations_of: dict[int, list[int]] = {}  # gang -> asks, ascending
        self.victims_of: dict[int, list[int]] = {}  # victim -> asks
        self.changed_nomination_nodes: set[int] = (
            set()
        )  # nodes whose nominations changed since the last check
        self.table_mark = TableMark()

    def plugins_of(self, spec: PodSpec) -> Plugins:
        """Return the plugins of the pod's profile."""
        return self.plugins.get(spec.scheduler, self.plugins_else)

    @property
    def world(self) -> int:
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
