"""Binding's state: pods' rows, nodes' names, open effects, what is due, what is to be reported."""

from collections import deque

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from services.binding.core.config import Config
from services.binding.core.due_pods import Due
from services.binding.core.pod_table import BindTable
from services.binding.core.transitions import Evicting
from shared.events.base import Event
from shared.events.observed import ExtendersPreempted
from shared.events.preemption import VictimsAsked
from shared.machine.core import MachineState
from shared.model.columns import I64
from shared.model.ids import service_of
from shared.model.objects import PodSpec
from shared.model.volumes import Choice

ENDS = ("bound", "gone", "foreign", "abandoned", "failed", "refused")
NODE_UNSEEN, NODE_LIVE, NODE_GONE = 0, 1, 2


class Column:
    """Pod ids and nodes to be reported, gathered one by one or whole columns at a time."""

    __slots__ = ("ids", "nodes")

    def __init__(self) -> None:
        """Nothing to report."""
        self.ids: list[int | I64] = []
        self.nodes: list[int | I64] = []

    def clear(self) -> None:
        """All of it was reported."""
        self.ids.clear()
        self.nodes.clear()


class Eviction(Struct):
    """Victims of one ask: where each stands, when a repeat is due, the effect that asks for it,
    and the pod they go for.
    """

    victims: list[int]
    phases: dict[int, Evicting] = {}
    due: dict[int, int] = {}
    effects: dict[int, int] = {}
    tries: int = 0
    pod: int = 0


class PostBind(Struct, array_like=True):
    """A bound pod of which plugins are to be told; effect 0 = not asked yet."""

    spec: PodSpec
    node: int
    effect: int = 0


class Promise(Struct, array_like=True):
    """What a shard chose for the claims of one pod with a node; `is_told`: all shards know."""

    number: int
    shard: int
    node: int
    choices: tuple[Choice, ...]
    is_told: bool = False


class BindingState(MachineState):
    """`left` counts the pods of each open effect that still wait for its answer; `due` says when
    a pod in REPEAT, READ or FENCE goes on; `todo` holds QUEUED pods in the order of decision.
    """

    def __init__(self, sources: tuple[str, ...]) -> None:
        """Nothing known, nothing open."""
        super().__init__(sources)
        self.config = Config()
        self.table = BindTable()
        self.node_names: dict[int, str] = {}
        self.node_ids: dict[str, int] = {}
        self.node_marks: NDArray[np.int8] = np.zeros(64, np.int8)
        self.last_node = 0
        self.lost_names: dict[int, str] = {}  # pod -> its node's name, once that node is gone
        self.is_restoring = False  # the cluster was restored, and is not listed again yet
        self.open = 0
        self.waiting: dict[int, bool] = {}
        self.volumes: dict[int, tuple[Choice, ...]] = {}  # to be bound before their pods
        self.shards = sum(service_of(source) == "placement" for source in sources)
        self.promises: dict[int, Promise] = {}  # by pod; with several shards alone
        self.untold: dict[int, bool] = {}  # whose promises shards do not know yet; follows
        self.promised: dict[tuple[str, str], list[tuple[Promise, Choice]]] = {}  # follows
        self.promises_over: list[tuple[int, int]] = []  # numbers, and where facts say it
        self.last_promise = 0
        self.taken: dict[int, str] = {}  # who came too late for its volumes, and why
        self.hooked: dict[int, PodSpec] = {}  # open binds at which plugins of users act
        self.pre_bind_no: dict[int, str] = {}  # those of them that a plugin is against, and why
        self.pre_bind_by: dict[int, tuple[str, bool]] = {}  # which permit plugin, or it failed
        self.refused_by: dict[int, str] = {}  # given up, and to be told for which permit plugin
        self.bind_no: dict[int, str] = {}  # those that were not bound by whom they were left to
        self.post_binds: dict[int, PostBind] = {}
        self.post_new: dict[int, bool] = {}  # those that are not asked for yet
        self.judge_new: dict[int, VictimsAsked] = {}  # by ask: extenders are to be asked
        self.judged: dict[int, ExtendersPreempted] = {}  # by ask: to be told to preemption
        self.todo: deque[int | I64] = deque()
        self.due = Due()
        self.next_effect = 1
        self.effects: dict[int, Event] = {}
        self.left: dict[int, int] = {}
        self.reports = {end: Column() for end in ENDS}
        self.has_reports = False
        self.evictions: dict[int, Eviction] = {}
        self.victims: dict[int, int] = {}
        self.evict_reports: dict[tuple[int, str], list[int]] = {}
        self.patches: dict[int, str] = {}
        self.patching: dict[int, bool] = {}
        self.messages: dict[int, str] = {}
        self.refreshes: dict[int, str] = {}
        self.refresh_ms = 0
        # When pods were bound, and which to which nodes: the newest.
        self.recent: deque[tuple[int, bytes, bytes]] = deque()
        self.recent_bytes = 0
        self.written: dict[int, tuple[str, int]] = {}  # pod -> its message, and when it was written
        self.errors: dict[int, str] = {}  # pod -> that message of its which is an error's

    @property
    def has_messages(self) -> bool:
        """Whether anything is known of what waiting pods read, or are to read."""
        return bool(self.written or self.patches or self.refreshes or self.errors)

    def node_mark(self, node: int) -> int:
        """Whether a node is live, gone, or not seen yet."""
        return int(self.node_marks[node]) if node <= self.last_node else NODE_UNSEEN
