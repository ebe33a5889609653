"""Ingest's state: live objects, interned signatures and label sets, open lists, the outbox."""

from collections import deque

from msgspec import Struct

from services.ingest.core.config import Config
from services.ingest.core.pods.table import PodTable
from shared.events.base import Event
from shared.events.ingest import ListAsked
from shared.machine.core import MachineState
from shared.model.cluster_objects import ClusterObject
from shared.model.default_spread import Spreaders
from shared.model.objects import Budget, Gang, Node, Selector
from shared.scheduling.api.custom_queue import QueuePlugins

OVERFLOW = -1
"""Stands in the node column for a node name that was one too many to be remembered."""

Labels = tuple[tuple[str, str], ...]


FIRST = ("nodes", "budgets", "gangs", "pods")
"""Listed before anything is placed. Other objects are too, as they are listed before the pods; but
they came later, and older journals say that a world is known without them.
"""


class WrongCluster(Exception):
    """The journal is of another cluster: nothing may be applied."""


class Signature(Struct):
    """An interned spec: its number, how many live pods have it, the images of it that are counted,
    and what plugins of users say of its queue (order and gate), unless that is as without them.
    """

    sig: int
    pods: int = 0
    images: tuple[int, ...] = ()
    queued: tuple[int, str] | None = None


class LabelSet(Struct):
    """Interned labels of a namespace, with who controls the pods; `budgets` are the covering ones'
    ids, ascending, `spread_by` is what selects such pods where that is asked.
    """

    number: int
    namespace: str
    labels: Labels
    owner: str = ""
    pods: int = 0
    budgets: tuple[int, ...] = ()
    spread_by: Selector = ()


class HeldNode(Struct):
    """A live node and the shard it was routed to."""

    id: int
    shard: int
    node: Node


class HeldImage(Struct):
    """An image, its number as in columns: how many signatures name it, how many nodes have it."""

    key: bytes
    sigs: int
    nodes: int


class Waiting(Struct):
    """A name that assigned pods give but no known node has; `code` stands in their column."""

    code: int
    pods: int = 0


class HeldBudget(Struct):
    """A live budget."""

    id: int
    budget: Budget


class HeldGang(Struct):
    """A gang that has an object, live members, or both."""

    id: int
    pods: int = 0
    version: int = 0
    gang: Gang | None = None


class Bracket(Struct):
    """A list under way. `held` is how many objects there were before it, `named` how many it has
    named so far; `stale` when it is older than what was already consumed. `marks`: see ListBegan.
    """

    revision: int
    held: int
    stale: bool
    named: int = 0
    seen: dict[str, bool] = {}
    nodes: list[Node] = []
    marks: tuple[tuple[str, int], ...] = ()


class IngestState(MachineState):
    """Everything ingest knows. Slots, label set numbers and waiting codes are private encodings."""

    def __init__(self, placements: int) -> None:
        """An empty world, no cluster opened yet."""
        super().__init__(())
        self.config = Config()
        self.queue_plugins: QueuePlugins | None = None  # as the configuration says
        self.cluster = ""
        self.revision = 0
        self.seen_revision = 0
        self.marks: dict[str, int] = {}  # up to where each part of the cluster was seen
        self.is_restored = False  # the cluster was restored, and not all of it is listed yet
        self.is_rewound = False  # the open list of pods shows some older than they were seen
        self.rejected = 0
        self.next_pod = self.next_node = self.next_sig = 1
        self.next_gang = self.next_budget = self.next_effect = 1
        self.pods = PodTable()
        self.sigs: dict[bytes, Signature] = {}
        self.sig_keys: dict[int, bytes] = {}
        self.labelsets: dict[tuple[str, Labels, str], LabelSet] = {}
        self.labelset_by_number: dict[int, LabelSet] = {}
        self.labelsets_in: dict[str, dict[int, LabelSet]] = {}  # by namespace and number
        self.next_labelset = 1
        self.interest: dict[str, frozenset[str]] = {}  # see the module `identity`
        self.nodes: dict[str, HeldNode] = {}
        self.node_by_id: dict[int, HeldNode] = {}
        self.node_names: dict[str, int] = {}
        self.images: dict[int, HeldImage] = {}  # by number; follows from signatures and nodes
        self.waiting: dict[str, Waiting] = {}
        self.next_waiting = OVERFLOW - 1
        self.zone_shards: dict[str, int] = {}
        self.left_shards: dict[str, int] = {}  # name -> shard of nodes that went, oldest first
        self.zone_nodes: dict[str, int] = {}
        self.shard_nodes = [0] * placements
        self.budgets: dict[str, HeldBudget] = {}
        self.gangs: dict[str, HeldGang] = {}
        self.gang_keys: dict[int, str] = {}
        self.objects: dict[str, ClusterObject] = {}
        self.spreaders = Spreaders()  # of the objects
        self.spread_sigs: dict[int, Selector] = {}  # signatures spread by default, and by what
        self.brackets: dict[str, Bracket] = {}
        self.broken_off: dict[str, bool] = {}  # kinds seen up to somewhere in a list
        self.mark = 0
        self.doubts: dict[str, bool] = {}
        self.unlisted: list[str] = []  # kinds of which the first list has not been applied
        self.listed_pods = self.listed_objects = 0
        self.effects: dict[int, ListAsked] = {}
        self.outbox: deque[Event] = deque()
        self.happened: dict[str, None] = {}  # kinds of events to be told of

    @property
    def spreads(self) -> bool:
        """Whether pods are spread by default; several shards could not count them."""
        return self.config.default_spread and len(self.shard_nodes) == 1
