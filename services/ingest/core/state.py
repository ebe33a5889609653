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
from shared.scheduling.api.custom.queue import QueuePlugins

OVERFLOW = -1
"""Value in the node column for a node name beyond the bound of remembered names."""

Labels = tuple[tuple[str, str], ...]


FIRST = ("nodes", "budgets", "gangs", "pods")
"""Kinds listed before any pod is placed. Other objects are listed before the pods too, but were
added later, and older journals call a world known without them.
"""


class WrongCluster(Exception):
    """The journal is of another cluster: nothing may be applied."""


class Signature(Struct):
    """An interned spec: its number, its live pods, its counted images, and the order and gate by
    users' queue plugins if they change any.
    """

    sig: int
    pods: int = 0
    images: tuple[int, ...] = ()
    queued: tuple[int, str] | None = None


class LabelSet(Struct):
    """Interned labels of a namespace with the pods' controller; `budgets`: ids of the covering
    budgets, ascending; `spread_by`: what selects such pods, if default spread applies.
    """

    number: int
    namespace: str
    labels: Labels
    owner: str = ""
    pods: int = 0
    budgets: tuple[int, ...] = ()
    spread_by: Selector = ()


class NodeRecord(Struct):
    """A live node and the shard it was routed to."""

    id: int
    shard: int
    node: Node


class ImageRecord(Struct):
    """An image with its number in columns: how many signatures name it, how many nodes have it."""

    key: bytes
    sigs: int
    nodes: int


class UnknownNode(Struct):
    """A node name of assigned pods without a known node; `code` is its value in the node column."""

    code: int
    pods: int = 0


class BudgetRecord(Struct):
    """A live budget."""

    id: int
    budget: Budget


class GangRecord(Struct):
    """A gang with an object, live members, or both."""

    id: int
    pods: int = 0
    version: int = 0
    gang: Gang | None = None


class Bracket(Struct):
    """An open list. `held`: objects known before it; `named`: objects named so far; `stale`: it is
    older than what was already consumed. `marks`: see ListBegan.
    """

    revision: int
    held: int
    stale: bool
    named: int = 0
    seen: dict[str, bool] = {}
    nodes: list[Node] = []
    marks: tuple[tuple[str, int], ...] = ()


class IngestState(MachineState):
    """The state of ingest. Slots, label set numbers and waiting codes are private encodings."""

    def __init__(self, placements: int) -> None:
        """Create an empty world without a cluster."""
        super().__init__(())
        self.config = Config()
        self.queue_plugins: QueuePlugins | None = None  # as configured
        self.cluster = ""
        self.revision = 0
        self.seen_revision = 0
        self.marks: dict[str, int] = {}  # how far each part of the cluster was seen
        self.is_restored = False  # the cluster was restored and is not fully listed yet
        self.is_rewound = False  # the open list shows pods older than seen before
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
        self.nodes: dict[str, NodeRecord] = {}
        self.node_by_id: dict[int, NodeRecord] = {}
        self.node_names: dict[str, int] = {}
        self.images: dict[int, ImageRecord] = {}  # by number; derived from signatures and nodes
        self.waiting: dict[str, UnknownNode] = {}
        self.next_waiting = OVERFLOW - 1
        self.zone_shards: dict[str, int] = {}
        self.left_shards: dict[str, int] = {}  # name -> shard of deleted nodes, oldest first
        self.zone_nodes: dict[str, int] = {}
        self.shard_nodes = [0] * placements
        self.budgets: dict[str, BudgetRecord] = {}
        self.gangs: dict[str, GangRecord] = {}
        self.gang_keys: dict[int, str] = {}
        self.objects: dict[str, ClusterObject] = {}
        self.spreaders = Spreaders()  # of the objects
        self.spread_sigs: dict[int, Selector] = {}  # signature -> selector of its default spread
        self.brackets: dict[str, Bracket] = {}
        self.broken_off: dict[str, bool] = {}  # kinds whose list broke off
        self.mark = 0
        self.doubts: dict[str, bool] = {}
        self.unlisted: list[str] = []  # kinds whose first list is not applied yet
        self.listed_pods = self.listed_objects = 0
        self.effects: dict[int, ListAsked] = {}
        self.outbox: deque[Event] = deque()
        self.events_to_publish: dict[str, None] = {}  # kinds of events to publish

    @property
    def spreads(self) -> bool:
        """Return whether default spread applies; several shards could not count it."""
        return self.config.default_spread and len(self.shard_nodes) == 1
