"""The state of one shard: what is true (dumped) and what is derived from it (rebuilt on load).

True: configuration, nodes, storage, signatures, the pod ledger, work to do, holds, nominations,
refusals, what may still be bound to nodes that went, and nodes withheld because of that; where
searches end early, the order of nodes and where the next search begins.
Derived: the node table's sums, pods per priority and node, totals, the kernel's caches.
"""

from collections import deque

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from services.placement.core.books.ledger import Ledger
from services.placement.core.config import Config
from services.placement.core.placing.work_queue import Todo
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

SOURCES: tuple[str, ...] = (INGEST, QUEUEING, PERMIT, PREEMPTION, BINDING)
TIE_SEED = 0


class Nomination(Struct):
    """Space promised to `pod` on `node`, charged in Filter with devices `mask`; `victims` are those
    still there. `announced` = NominationReady was said; `lost` = why it must be given up. `gang`:
    the space is the whole gang's; `is_used` while it is held for one of its members.
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
        """Whether others must leave room for it."""
        return not self.lost and not self.is_used


class Seen(Struct, frozen=True):
    """What the table was when nominations were looked at last."""

    restarts: int = -1
    statics: int = -1
    position: int = 0
    moves: int = -1


class Deferred(Struct):
    """A dispatch of a pod that this shard still charges for an older decision."""

    attempt: int
    sig: int
    urgent: bool


class Unsettled(Struct):
    """A pod decided for `node` called `name`, which went before its bind was settled; `gang` and
    `attempt` while it is only held.
    """

    name: str
    node: int
    gang: int = 0
    attempt: int = 0


class VolumeWait(Struct):
    """A pod reserved on `node` called `name` waits until the claims of `choices` are bound, no
    longer than `until_ms` (None: it is held for a gang that is not committed yet). `shown`: claims
    that the cluster showed with that node.
    """

    node: int
    name: str
    choices: tuple[Choice, ...]
    until_ms: int | None
    shown: tuple[str, ...] = ()


class MemberChoice(Struct, frozen=True):
    """What a member of a gang gets with its node; `spec`, where somebody acts when it is bound."""

    node: int
    choices: tuple[Choice, ...]
    spec: PodSpec | None


class Elsewhere(Struct):
    """What was chosen for a pod of another shard with the node called `name`; from position `world`
    of the world journal on facts say what became of it (-1 = it is still open).
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
    """One shard."""

    def __init__(self, shard: int, shards: int = 1) -> None:
        """Before any event."""
        super().__init__(SOURCES)
        self.shard, self.shards = shard, shards
        self.config = Config()
        self.nodes: dict[int, Node] = {}
        self.spread: Spread | None = None  # how the cluster has images; with several shards alone
        self.namespaces: dict[str, Pairs] = {}  # labels by name; only once a rule selects by them
        self.storage = Storage()
        self.volume_waits: dict[int, VolumeWait] = {}
        self.volumes_over: dict[int, str] = {}  # who need not wait longer, and why if it failed
        self.waits_on: dict[tuple[str, str], list[int]] = {}  # by claim or volume; follows
        self.member_choices: dict[tuple[int, int], dict[int, MemberChoice]] = {}  # by open attempt
        self.choices_to_tell: dict[int, MemberChoice] = {}  # of members that are committed
        self.elsewhere: dict[int, Elsewhere] = {}  # by number of the promise
        self.elsewhere_over: list[int] = []  # those that facts may end
        self.specs: dict[int, PodSpec] = {}
        self.orders: dict[int, int] = {}  # what plugins of users put in place of the priority
        self.retired: set[int] = set()
        self.last_sig = 0
        self.ledger = Ledger()
        self.budgets_more: dict[int, tuple[int, ...]] = {}
        self.gone: deque[int] = deque()
        self.todo = Todo()
        self.deferred: dict[int, Deferred] = {}
        self.failed: dict[int, None] = {}
        self.holds: dict[tuple[int, int], I64] = {}
        self.nominations: dict[int, Nomination] = {}
        self.unsettled: dict[int, Unsettled] = {}
        self.withheld: dict[int, Node] = {}
        self.refused: set[int] = set()
        self.hopeless: set[int] = set()  # those of them that preemption does not help
        self.better: set[int] = set()
        self.extender_asks = 0  # how often extenders were asked
        self.judged: dict[tuple[int, int], dict[int, ExtendersAnswered]] = {}
        """(gang, attempt) of open ones -> what extenders say of members, by signature."""
        self.again: dict[int, int] = {}  # refused by extenders: signature -> when to try anew
        self.told: dict[int, Refused] = {}  # what was said of these then
        self.not_left: dict[tuple[int, int], int] = {}
        """(signature, node) -> until when nobody goes there for it: extenders refused the room."""
        self.looks: dict[int, None] = {}  # refused signatures that queueing wants reasons for
        self.tree: NodeTree | None = None  # the order of nodes; only where searches end early
        self.start_index = 0
        self.digest: tuple[int, int, int, int] = (0, 0, 0, 0)
        self.digest_ms = 0
        self.init_derived()

    def init_derived(self) -> None:
        """What is derived, of a shard without nodes and signatures."""
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
        self.has_own_sigs = False  # whether the ledger may hold any
        self.levels: dict[int, NDArray[np.int32]] = {}
        self.capacity = Totals()
        self.used = Totals()
        self.nominated: dict[int, int] = {}
        self.nominations_on: dict[int, list[int]] = {}  # node -> asks, ascending
        self.nominations_of: dict[int, list[int]] = {}  # gang -> asks, ascending
        self.victims_of: dict[int, list[int]] = {}  # victim -> asks
        self.stirred: set[int] = set()  # nodes whose nominations changed since they were looked at
        self.seen = Seen()

    def plugins_of(self, spec: PodSpec) -> Plugins:
        """Those that schedule the pod."""
        return self.plugins.get(spec.scheduler, self.plugins_else)

    @property
    def world(self) -> int:
        """Position of the world journal that this shard has applied."""
        return self.cursors[INGEST].next

    def free(self) -> tuple[int, int, int, int]:
        """What a digest says now: nodes, free cpu (milli), memory (bytes), gpu (milli)."""
        have, used = self.capacity, self.used
        return (
            len(self.nodes),
            max(0, have.cpu_milli - used.cpu_milli),
            max(0, have.memory_bytes - used.memory_bytes),
            max(0, have.gpu_milli - used.gpu_milli),
        )
