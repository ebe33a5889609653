"""What `muster why` finds out."""

from datetime import datetime

from msgspec import Struct

from muster.cli.output import RecordText, Time, time_of
from shared.events.describe import View, describe
from shared.replay.newest_record import Found
from shared.scheduling.api.custom.failures import Failure
from shared.scheduling.cycle.report import NodeReport


class Score(Struct, frozen=True):
    """What a plugin adds to a node's score, weighted."""

    plugin: str
    score: int


class NodeAnswer(Struct, frozen=True):
    """One node: refused by a plugin (`refused_by`) with `reasons`, or feasible with its score and
    what each plugin adds to it.
    """

    node: str
    refused_by: str
    reasons: tuple[str, ...]
    score: int
    scores: tuple[Score, ...] = ()


class Pick(Struct):
    """Why a shard picked a pod's node. `score` is recorded. The rest is of the moment of the pick
    if all nodes' scores could be computed again (`missing` is empty); else as recorded when the
    first of a batch of `batch` pods was picked, with the feasible nodes unknown (null) for members
    of gangs. `next_best`: the best score among other nodes (null: none). `was_kept`: its gang kept
    the place of a lost member there.
    """

    score: int
    batch: int
    feasible: int | None = None
    nodes: int | None = None
    next_best: int | None = None
    next_node: str = ""
    missing: str = ""
    was_kept: bool = False


class Eviction(Struct, frozen=True):
    """The pod is a victim of preemption on `node`, for the pod `by` (of `gang`, if it is a member)
    with this priority (null: its spec was cut from the journal). `victims`: how many pods leave for
    it, or for its whole gang. `time`: when the API accepted the eviction (null: not yet).
    `is_beyond_budget`: the pod's PodDisruptionBudget did not allow it. Without `by` it is one of
    the pods that were left of `gang` below its minCount. `claimed_for`: the queue that gets its
    guarantee by it.
    """

    node: str
    by: str
    victims: int
    priority: int | None = None
    gang: str = ""
    time: Time | None = None
    is_beyond_budget: bool = False
    claimed_for: str = ""


class Victim(Struct, frozen=True):
    """A pod that was evicted; `is_beyond_budget` as in Eviction."""

    pod: str
    is_beyond_budget: bool = False


class Reason(Struct, frozen=True):
    """Why nodes are not feasible, and how many of them."""

    reason: str
    nodes: int


class Kept(Struct, frozen=True):
    """Room on a node for a nominated pod, which waits until its victims have left; with
    `until_time` for the lost member `pod` of a gang, or the one that comes in its place.
    """

    node: str
    pod: str
    priority: int
    victims: tuple[str, ...]
    gang: str = ""
    until_time: Time | None = None


class Answer(Struct, kw_only=True):
    """Where a pod stands and why. `decided` is the record that brought it there. `confirmed` are
    the shards' newest checks of its signature; the message is as old as the oldest of them.
    `end_time`: when a deleted or finished pod was seen to be gone (null: it is there). `evictions`:
    pods that were evicted for it, or for its gang. `kept`: room that others keep for lost members
    while it waits. `read_to`: how far each journal was read.
    `plugin_failures` are of the whole run, if it has ended.
    """

    pod: str
    state: str
    message: str = ""
    detail: str = ""
    node: str = ""
    gang: str = ""
    reasons: tuple[Reason, ...] = ()
    decided: RecordText | None = None
    confirmed: tuple[RecordText, ...] = ()
    nodes: tuple[NodeAnswer, ...] = ()
    evicted: Eviction | None = None
    pick: Pick | None = None
    evictions: tuple[Victim, ...] = ()
    kept: tuple[Kept, ...] = ()
    end_time: Time | None = None
    read_to: dict[str, int] = {}
    plugin_failures: tuple[Failure, ...] = ()


class Member(Struct, frozen=True):
    """A member of a gang, and its node if it has one."""

    pod: str
    state: str
    node: str = ""


class GangAnswer(Struct, kw_only=True):
    """Where a gang stands and why. `missing`: how many more members need a node for minCount.
    `wait_start_time`: when the oldest of its waiting members arrived (null: none waits). `next`:
    what it waits for. `evictions`, `decided`, `read_to`, `plugin_failures`: as in Answer.
    """

    gang: str
    state: str
    message: str = ""
    min_count: int = 0
    missing: int = 0
    wait_start_time: Time | None = None
    next: str = ""
    members: tuple[Member, ...] = ()
    evictions: tuple[Victim, ...] = ()
    decided: RecordText | None = None
    read_to: dict[str, int] = {}
    plugin_failures: tuple[Failure, ...] = ()


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


class OneNodeAnswer(Struct, kw_only=True):
    """What a shard knows about a node (`shard` null: no shard has it). `message`: why its newest
    object was left out. `decided`, `read_to`, `plugin_failures`: as in Answer.
    """

    node: str
    state: str
    message: str = ""
    shard: int | None = None
    taints: tuple[str, ...] = ()
    amounts: tuple[Amount, ...] = ()
    pods: tuple[OnNode, ...] = ()
    kept: tuple[Kept, ...] = ()
    decided: RecordText | None = None
    read_to: dict[str, int] = {}
    plugin_failures: tuple[Failure, ...] = ()


def utc(time: datetime) -> str:
    """Return a time for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC")


def node_answer_of(report: NodeReport, extended: int = 0) -> NodeAnswer:
    """Return the node's part of a cycle, to which extenders add."""
    scores = tuple(Score(one.plugin, one.normalised * one.weight) for one in report.scores)
    more = (Score("extenders", extended),) if extended else ()
    total = report.total + extended
    return NodeAnswer(report.name, report.plugin, report.messages, total, (*scores, *more))


def decided_by(found: Found, view: View) -> RecordText:
    """Return the record with the text of its matching event."""
    text = describe(found.event, view)
    return RecordText(time_of(found.time_ms), found.journal, found.position, text)
