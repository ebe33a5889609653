"""Binding's state: pods' rows, nodes' names, open effects, due pods, and reports."""

from collections import deque
from dataclasses import InitVar, dataclass, field
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from services.binding.core.config import Config
from services.binding.core.due_pods import Due
from services.binding.core.pod_table import BindTable
from services.binding.core.transitions import Evicting
from shared.events.binding import (
    BindsAsked,
    ClaimReturnsAsked,
    EvictionsAsked,
    ExtendersPreemptAsked,
    FencesAsked,
    GroupsAsked,
    PermitsAsked,
    PostBindsAsked,
    PreBindsAsked,
    ReadsAsked,
    RequestsAsked,
    VolumesAsked,
)
from shared.events.observed import ExtendersPreempted
from shared.events.preemption import VictimsAsked
from shared.machine.core import MachineState
from shared.machine.saved import Derived, Shared
from shared.model.claims import ClaimChoice
from shared.model.columns import I64
from shared.model.groups.provisioning import ProvisioningWrite
from shared.model.ids import (
    NO_EFFECT,
    NO_GANG,
    NO_POD,
    AskId,
    AttemptId,
    EffectId,
    GangId,
    JournalName,
    NodeId,
    PodId,
    service_of,
)
from shared.model.objects import PodSpec
from shared.model.volumes import Choice

ENDS = ("bound", "gone", "foreign", "abandoned", "failed", "refused")
EffectAsked: TypeAlias = (BindsAsked | ReadsAsked | FencesAsked | VolumesAsked | EvictionsAsked) | (
    PermitsAsked
    | PreBindsAsked
    | PostBindsAsked
    | ExtendersPreemptAsked
    | GroupsAsked
    | RequestsAsked
    | ClaimReturnsAsked
)
NODE_UNSEEN, NODE_LIVE, NODE_GONE = 0, 1, 2


@dataclass(slots=True)
class Column:
    """Pod ids and nodes to report, gathered one by one or as whole columns."""

    ids: list[PodId | I64] = field(default_factory=list)
    nodes: list[NodeId | I64] = field(default_factory=list)

    def clear(self) -> None:
        """Clear the column after its report."""
        self.ids.clear()
        self.nodes.clear()


class Eviction(Struct):
    """The victims of one ask: each one's phase and next repeat, the open effect, and the preemptor;
    `beyond`: those beyond their budgets. `gang`: they are what is left of it below its minCount.
    `claimed_for`: the queue that gets its guarantee.
    """

    victims: list[PodId]
    phases: dict[PodId, Evicting] = {}
    due: dict[PodId, int] = {}
    effects: dict[PodId, EffectId] = {}
    tries: int = 0
    pod: PodId = NO_POD
    beyond: list[PodId] = []
    gang: GangId = NO_GANG
    claimed_for: str = ""


class PostBind(Struct):
    """A bound pod for PostBind plugins; effect 0: not sent yet."""

    spec: PodSpec
    node: NodeId
    effect: EffectId = NO_EFFECT


class Promise(Struct):
    """A shard's volume choices for one pod and node; `is_announced`: all shards know it."""

    number: int
    shard: int
    node: NodeId
    choices: tuple[Choice, ...]
    is_announced: bool = False


class ClaimWrite(Struct):
    """What a shard chose for the claims of a pod. `is_sent`: a request may have left; `revisions`:
    the claims' resourceVersions (int64), once all are written.
    """

    shard: int
    attempt: AttemptId
    choices: tuple[ClaimChoice, ...]
    is_sent: bool = False
    revisions: bytes = b""


class ClaimReturn(Struct):
    """Claims to be given back at the resourceVersions in `choices`, of a pod by its number and its
    names; without names the pod keeps what it has.
    """

    pod: PodId
    uid: str
    namespace: str
    name: str
    shard: int
    attempt: AttemptId
    choices: tuple[ClaimChoice, ...]
    due_ms: int = 0
    tries: int = 0


def _no_reports() -> dict[str, Column]:
    return {end: Column() for end in ENDS}


@dataclass(eq=False, repr=False)
class BindingState(MachineState):
    """The state of binding. `pods_left` counts the pods of each open effect that wait for its
    answer; `due` is when a pod in REPEAT, READ or FENCE continues; `queued` has the QUEUED pods in
    the order of decision.
    """

    sources: InitVar[tuple[JournalName, ...]]
    config: Config = field(default_factory=Config)
    table: BindTable = field(default_factory=BindTable)
    node_names: dict[NodeId, str] = field(default_factory=dict)
    node_marks: NDArray[np.int8] = field(default_factory=lambda: np.zeros(64, np.int8))
    lost_names: dict[PodId, str] = field(default_factory=dict)  # pod -> its deleted node's name
    is_restoring: bool = False  # the cluster was restored and is not fully listed yet
    unresolved: dict[PodId, bool] = field(default_factory=dict)
    volumes: dict[PodId, tuple[Choice, ...]] = field(
        default_factory=dict
    )  # to bind before the pods
    promises: dict[PodId, Promise] = field(default_factory=dict)  # by pod; only with several shards
    # Numbers, and the position of their facts.
    promises_over: list[tuple[int, int]] = field(default_factory=list)
    last_promise: int = 0
    # Pods whose volumes are promised to others -> why.
    promise_conflicts: dict[PodId, str] = field(default_factory=dict)
    claims: dict[PodId, ClaimWrite] = field(default_factory=dict)  # of open binds
    # By number: to be given back; and the effect that gives some of them back.
    claim_returns: dict[int, ClaimReturn] = field(default_factory=dict)
    last_return: int = 0
    # Pods whose claims are still being given back -> why they are refused.
    claim_conflicts: dict[PodId, str] = field(default_factory=dict)
    return_effect: EffectId = NO_EFFECT
    # Shard, pod, attempt and claims (joined uids) whose outcome shows at these revisions.
    claims_over: deque[tuple[int, PodId, AttemptId, str, bytes]] = field(default_factory=deque)
    # Open binds with users' plugins.
    plugin_specs: Shared[dict[PodId, PodSpec]] = field(default_factory=dict)
    pre_bind_rejections: dict[PodId, str] = field(
        default_factory=dict
    )  # rejected by a plugin -> why
    # Pod -> (Permit plugin, whether it failed).
    pre_bind_rejectors: dict[PodId, tuple[str, bool]] = field(default_factory=dict)
    # Given up -> the Permit plugin to report.
    permit_rejectors: dict[PodId, str] = field(default_factory=dict)
    # Pods that their plugin or extender did not bind -> why.
    bind_errors: dict[PodId, str] = field(default_factory=dict)
    post_binds: dict[PodId, PostBind] = field(default_factory=dict)
    # By ask: extenders must be asked, and what they said must be sent to preemption.
    victims_to_ask: dict[AskId, VictimsAsked] = field(default_factory=dict)
    victim_answers: dict[AskId, ExtendersPreempted] = field(default_factory=dict)
    queued: deque[PodId | I64] = field(default_factory=deque)
    due: Due = field(default_factory=Due)
    next_effect: int = 1
    effects: dict[EffectId, EffectAsked] = field(default_factory=dict)
    pods_left: dict[EffectId, int] = field(default_factory=dict)
    reports: dict[str, Column] = field(default_factory=_no_reports)
    evictions: dict[AskId, Eviction] = field(default_factory=dict)
    victims: dict[PodId, AskId] = field(default_factory=dict)
    evict_reports: dict[tuple[AskId, str], list[PodId]] = field(default_factory=dict)
    patches: Shared[dict[PodId, str]] = field(default_factory=dict)
    patching: dict[EffectId, bool] = field(default_factory=dict)
    messages: Shared[dict[PodId, str]] = field(default_factory=dict)
    refreshes: Shared[dict[PodId, str]] = field(default_factory=dict)
    refresh_ms: int = 0
    # PodGroup -> what its condition is to say; and the effect that writes some of them.
    group_conditions: dict[str, str] = field(default_factory=dict)
    group_errors: dict[str, None] = field(default_factory=dict)  # those of them that are errors
    group_effect: EffectId = NO_EFFECT
    # By gang: the request to the cluster autoscaler to be written or deleted, and why the last one
    # was not; and the effect that writes some of them.
    provisioning: dict[str, ProvisioningWrite] = field(default_factory=dict)
    provisioning_errors: dict[str, str] = field(default_factory=dict)
    provisioning_effect: EffectId = NO_EFFECT
    # The newest binds: when, which pods, which nodes.
    recent: deque[tuple[int, bytes, bytes]] = field(default_factory=deque)
    # Pod -> (message, when it was written).
    written: Shared[dict[PodId, tuple[str, int]]] = field(default_factory=dict)
    errors: Shared[dict[PodId, str]] = field(default_factory=dict)  # pod -> its message if an error

    shards: Derived[int] = 0
    node_ids: Derived[dict[str, NodeId]] = field(default_factory=dict)
    last_node: Derived[int] = 0
    open: Derived[int] = 0
    unannounced: Derived[dict[PodId, bool]] = field(default_factory=dict)  # shards do not know them
    promised: Derived[dict[tuple[str, str], list[tuple[Promise, Choice]]]] = field(
        default_factory=dict
    )
    post_new: Derived[dict[PodId, bool]] = field(default_factory=dict)  # not sent yet
    has_reports: Derived[bool] = False
    recent_bytes: Derived[int] = 0

    def __post_init__(self, sources: tuple[JournalName, ...]) -> None:
        super().__init__(sources)
        self.shards = sum(service_of(source) == "placement" for source in sources)

    @property
    def has_messages(self) -> bool:
        """Return whether there are messages of waiting pods, written or to be written."""
        return bool(self.written or self.patches or self.refreshes or self.errors)

    def node_mark(self, node: NodeId) -> int:
        """Return whether a node is live, deleted or not seen yet."""
        return int(self.node_marks[node]) if node <= self.last_node else NODE_UNSEEN
