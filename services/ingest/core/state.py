"""Ingest's state: live objects, interned signatures and label sets, open lists, the outbox."""

from collections import deque
from dataclasses import InitVar, dataclass, field

from msgspec import Struct

from services.ingest.core.config import Config
from services.ingest.core.hyper_nodes import HyperNodes
from services.ingest.core.pods.table import PodTable
from shared.events import Fact
from shared.events.ingest import ListAsked
from shared.machine.core import MachineState
from shared.machine.saved import Derived, Ordered
from shared.model.cluster_objects import ClusterObject, Queue
from shared.model.ids import NO_GANG, EffectId, GangId, NodeId, SignatureId
from shared.model.objects import Budget, Gang, Node, Selector
from shared.model.pod_rules.default_spread import Spreaders
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

    sig: SignatureId
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
    """A live node, as it was observed, and the shard it was routed to."""

    id: NodeId
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
    """A gang with an object, live members, or both. `root`: the root of CompositePodGroups with
    which it was published.
    """

    id: GangId
    pods: int = 0
    version: int = 0
    gang: Gang | None = None
    root: GangId = NO_GANG


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


@dataclass(eq=False, repr=False)
class IngestState(MachineState):
    """The state of ingest. Slots, label set numbers and waiting codes are private encodings."""

    placements: InitVar[int]
    config: Config = field(default_factory=Config)
    cluster: str = ""
    revision: int = 0
    seen_revision: int = 0
    marks: dict[str, int] = field(default_factory=dict)  # how far each part of the cluster was seen
    is_restored: bool = False  # the cluster was restored and is not fully listed yet
    is_rewound: bool = False  # the open list shows pods older than seen before
    rejected: int = 0
    next_pod: int = 1
    next_node: int = 1
    next_sig: int = 1
    next_gang: int = 1
    next_budget: int = 1
    next_effect: int = 1
    pods: PodTable = field(default_factory=PodTable)
    sigs: dict[bytes, Signature] = field(default_factory=dict)
    labelset_by_number: dict[int, LabelSet] = field(default_factory=dict)
    next_labelset: int = 1
    # See the module `identity`.
    interest: dict[str, frozenset[str]] = field(default_factory=dict)
    node_by_id: dict[NodeId, NodeRecord] = field(default_factory=dict)
    node_names: dict[str, int] = field(default_factory=dict)
    images: dict[int, ImageRecord] = field(default_factory=dict)  # by number
    waiting: dict[str, UnknownNode] = field(default_factory=dict)
    next_waiting: int = OVERFLOW - 1
    budgets: Ordered[dict[str, BudgetRecord]] = field(default_factory=dict)  # oldest first
    gangs: dict[str, GangRecord] = field(default_factory=dict)
    objects: dict[str, ClusterObject] = field(default_factory=dict)
    queues: tuple[Queue, ...] = ()  # the last ones that were a tree, by name
    # Signature -> selector of its default spread.
    spread_sigs: dict[SignatureId, Selector] = field(default_factory=dict)
    brackets: dict[str, Bracket] = field(default_factory=dict)
    broken_off: dict[str, bool] = field(default_factory=dict)  # kinds whose list broke off
    mark: int = 0
    doubts: dict[str, bool] = field(default_factory=dict)
    unlisted: list[str] = field(default_factory=list)  # kinds whose first list is not applied yet
    stands_by: bool = False  # the world is new, and another process leads
    listed_pods: int = 0
    listed_objects: int = 0
    effects: dict[EffectId, ListAsked] = field(default_factory=dict)
    outbox: deque[Fact] = field(default_factory=deque)
    events_to_publish: dict[str, None] = field(default_factory=dict)  # kinds of events

    queue_plugins: Derived[QueuePlugins | None] = None  # as configured
    sig_keys: Derived[dict[SignatureId, bytes]] = field(default_factory=dict)
    labelsets: Derived[dict[tuple[str, Labels, str], LabelSet]] = field(default_factory=dict)
    labelsets_in: Derived[dict[str, dict[int, LabelSet]]] = field(default_factory=dict)
    nodes: Derived[dict[str, NodeRecord]] = field(default_factory=dict)
    shard_nodes: Derived[list[int]] = field(default_factory=list)
    gang_keys: Derived[dict[GangId, str]] = field(default_factory=dict)
    # Groups that keep the places of lost members.
    keeping: Derived[set[GangId]] = field(default_factory=set)
    # CompositePodGroup -> the groups that name it as their parent.
    children: Derived[dict[str, dict[str, None]]] = field(default_factory=dict)
    spreaders: Derived[Spreaders] = field(default_factory=Spreaders)  # of the objects
    hyper_nodes: Derived[HyperNodes] = field(default_factory=HyperNodes)  # of the objects

    queue_by_name: Derived[dict[str, Queue]] = field(default_factory=dict)
    # Namespace -> queue of its pods that name none; empty without queues.
    queue_of_namespace: Derived[dict[str, str]] = field(default_factory=dict)

    def __post_init__(self, placements: int) -> None:
        super().__init__(())
        self.shard_nodes = [0] * placements

    @property
    def spreads(self) -> bool:
        """Return whether default spread applies."""
        return self.config.default_spread
