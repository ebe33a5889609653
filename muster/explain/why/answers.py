"""What `muster why` finds out."""

from datetime import UTC, datetime

from msgspec import Struct

from shared.events.describe import View, describe
from shared.model.ids import JournalName, PodId
from shared.replay.newest_record import Found
from shared.scheduling.cycle.report import NodeReport


class Decided(Struct, frozen=True):
    """A record and its text about the subject."""

    journal: JournalName
    position: int
    time_ms: int
    text: str


class NodeAnswer(Struct, frozen=True):
    """One node: refused by a plugin (`refused_by`) with `reasons`, or feasible with its score and
    what each plugin adds to it, weighted.
    """

    node: str
    refused_by: str
    reasons: tuple[str, ...]
    score: int
    scores: tuple[tuple[str, int], ...] = ()


class Pick(Struct):
    """Why a shard picked a pod's node. `score` is recorded. The rest is of the moment of the pick
    if all nodes' scores could be computed again (`missing` is empty); else as recorded when the
    first of a batch of `batch` pods was picked, with the feasible nodes unknown (-1) for members of
    gangs. `next_best`: the best score among other nodes (-1: none).
    """

    score: int
    batch: int
    feasible: int = -1
    nodes: int = -1
    next_best: int = -1
    next_node: str = ""
    missing: str = ""


class Eviction(Struct, frozen=True):
    """The pod is a victim of preemption on `node`, for the pod `by` (of `gang`, if it is a member)
    with this priority (None: its spec was cut from the journal). `victims`: how many pods leave for
    it, or for its whole gang. `time_ms`: when the API accepted the eviction; -1: not yet.
    `is_beyond_budget`: the pod's PodDisruptionBudget did not allow it.
    """

    node: str
    by: str
    victims: int
    priority: int | None = None
    gang: str = ""
    time_ms: int = -1
    is_beyond_budget: bool = False


class Victim(Struct, frozen=True):
    """A pod that was evicted; `is_beyond_budget` as in Eviction."""

    pod: str
    is_beyond_budget: bool = False


class Answer(Struct, kw_only=True):
    """Where a pod stands and why. `confirmed` are the shards' newest checks of its signature; the
    message is as old as the oldest of them. `ended_ms`: when a deleted or finished pod was seen to
    be gone (-1: it is there). `evictions`: pods that were evicted for it, or for its gang.
    `read_to`: how far each journal was read.
    """

    pod: str
    state: str
    message: str = ""
    detail: str = ""
    node: str = ""
    gang: str = ""
    reasons: tuple[tuple[str, int], ...] = ()
    decided: Decided | None = None
    confirmed: tuple[Decided, ...] = ()
    nodes: tuple[NodeAnswer, ...] = ()
    evicted: Eviction | None = None
    pick: Pick | None = None
    evictions: tuple[Victim, ...] = ()
    ended_ms: int = -1
    read_to: dict[str, int] = {}


class Member(Struct, frozen=True):
    """A member of a gang with its place in the queue, and its node if it has one."""

    number: PodId
    pod: str
    state: str
    node: str = ""


class GangAnswer(Struct, kw_only=True):
    """Where a gang stands and why. `missing`: how many more members need a node for minCount.
    `since_ms`: when the oldest of its waiting members arrived (-1: none waits). `next`: what it
    waits for. `evictions`, `read_to`: as in Answer.
    """

    gang: str
    state: str
    message: str = ""
    min_count: int = 0
    missing: int = 0
    since_ms: int = -1
    next: str = ""
    members: tuple[Member, ...] = ()
    evictions: tuple[Victim, ...] = ()
    decided: Decided | None = None
    read_to: dict[str, int] = {}


class Amount(Struct, frozen=True):
    """What pods on a node request of a resource, and what there is, as Kubernetes' quantities."""

    resource: str
    requested: str
    allocatable: str


class OnNode(Struct, frozen=True):
    """A pod that a shard charges to a node."""

    pod: str
    state: str
    priority: int


class Kept(Struct, frozen=True):
    """Room on a node for a nominated pod, which waits until its victims have left."""

    pod: str
    priority: int
    victims: tuple[str, ...]
    gang: str = ""


class OneNodeAnswer(Struct, kw_only=True):
    """What a shard knows about a node (`shard` -1: no shard has it). `message`: why its newest
    object was left out.
    """

    node: str
    state: str
    message: str = ""
    shard: int = -1
    taints: tuple[str, ...] = ()
    amounts: tuple[Amount, ...] = ()
    pods: tuple[OnNode, ...] = ()
    kept: tuple[Kept, ...] = ()
    decided: Decided | None = None
    read_to: dict[str, int] = {}


def utc(time_ms: int) -> str:
    """Return a time for people."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def node_answer_of(report: NodeReport, extended: int = 0) -> NodeAnswer:
    """Return the node's part of a cycle, to which extenders add."""
    scores = tuple((one.plugin, one.normalised * one.weight) for one in report.scores)
    more = (("extenders", extended),) if extended else ()
    total = report.total + extended
    return NodeAnswer(report.name, report.plugin, report.messages, total, (*scores, *more))


def decided_by(found: Found, view: View) -> Decided:
    """Return the record with the text of its matching event."""
    return Decided(found.journal, found.position, found.time_ms, describe(found.event, view))
