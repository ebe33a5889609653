"""Binding's state: pods' rows, nodes' names, open effects, due pods, and reports."""

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
from shared.model.ids import JournalName, service_of
from shared.model.objects import PodSpec
from shared.model.volumes import Choice

ENDS = ("bound", "gone", "foreign", "abandoned", "failed", "refused")
NODE_UNSEEN, NODE_LIVE, NODE_GONE = 0, 1, 2


class Column:
    """Pod ids and nodes to report, gathered one by one or as whole columns."""

    __slots__ = ("ids", "nodes")

    def __init__(self) -> None:
        """Create an empty column."""
        self.ids: list[int | I64] = []
        self.nodes: list[int | I64] = []

    def clear(self) -> None:
        """Clear the column after its report."""
        self.ids.clear()
        self.nodes.clear()


class Eviction(Struct):
    """The victims of one ask: each one's phase and next repeat, the open effect, and
    the preemptor.
    """

    victims: list[int]
    phases: dict[int, Evicting] = {}
    due: dict[int, int] = {}
    effects: dict[int, int] = {}
    tries: int = 0
    pod: int = 0


class PostBind(Struct, array_like=True):
    """A bound pod for PostBind plugins; effect 0: not sent yet."""

    spec: PodSpec
    node: int
    effect: int = 0


class Promise(Struct, array_like=True):
    """A shard's volume choices for one pod and node; `is_announced`: all shards know it."""

    number: int
    shard: int
    node: int
    choices: tuple[Choice, ...]
    is_announced: bool = False


class BindingState(MachineState):
    """The state of binding. `pods_left` counts the pods of each open effect that wait for its
    answer; `due` is when a pod in REPEAT, READ or FENCE continues; `queued` has the QUEUED pods in
    the order of decision.
    """

    def __init__(self, sources: tuple[JournalName, ...]) -> None:
        """Create an empty state."""
        super().__init__(sources)
        self.config = Config()
        self.table = BindTable()
        self.node_names: dict[int, str] = {}
        self.node_ids: dict[str, int] = {}
        self.node_marks: NDArray[np.int8] = np.zeros(64, np.int8)
        self.last_node = 0
        self.lost_names: dict[int, str] = {}  # pod -> the name of its deleted node
        self.is_restoring = False  # the cluster was restored and is not fully listed yet
        self.open = 0
        self.unresolved: dict[int, bool] = {}
        self.volumes: dict[int, tuple[Choice, ...]] = {}  # to be bound before their pods
        self.shards = sum(service_of(source) == "placement" for source in sources)
        self.promises: dict[int, Promise] = {}  # by pod; only with several shards
        self.unannounced: dict[int, bool] = {}  # promises that shards do not know yet; derived
        self.promised: dict[tuple[str, str], list[tuple[Promise, Choice]]] = {}  # follows
        self.promises_over: list[tuple[int, int]] = []  # numbers, and the position of their facts
        self.last_promise = 0
        self.promise_conflicts: dict[
            int, str
        ] = {}  # pods whose volumes are promised to others -> why
        self.plugin_specs: dict[int, PodSpec] = {}  # open binds with users' plugins
        self.pre_bind_rejections: dict[int, str] = {}  # rejected by a plugin -> why
        self.pre_bind_rejectors: dict[
            int, tuple[str, bool]
        ] = {}  # (Permit plugin, whether it failed)
        self.permit_rejectors: dict[int, str] = {}  # given up -> the Permit plugin to report
        self.bind_errors: dict[
            int, str
        ] = {}  # pods that their plugin or extender did not bind -> why
        self.post_binds: dict[int, PostBind] = {}
        self.post_new: dict[int, bool] = {}  # not sent yet
        self.victims_to_ask: dict[int, VictimsAsked] = {}  # by ask: extenders must be asked
        self.victim_answers: dict[int, ExtendersPreempted] = {}  # by ask: to be sent to preemption
        self.queued: deque[int | I64] = deque()
        self.due = Due()
        self.next_effect = 1
        self.effects: dict[int, Event] = {}
        self.pods_left: dict[int, int] = {}
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
        # The newest binds: when, which pods, which nodes.
        self.recent: deque[tuple[int, bytes, bytes]] = deque()
        self.recent_bytes = 0
        self.written: dict[int, tuple[str, int]] = {}  # pod -> (message, when it was written)
        self.errors: dict[int, str] = {}  # pod -> its message if it is an error

    @property
    def has_messages(self) -> bool:
        """Return whether there are messages of waiting pods, written or to be written."""
        return bool(self.written or self.patches or self.refreshes or self.errors)

    def node_mark(self, node: int) -> int:
        """Return whether a node is live, deleted or not seen yet."""
        return int(self.node_marks[node]) if node <= self.last_node else NODE_UNSEEN
