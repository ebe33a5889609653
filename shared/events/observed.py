"""Observations for ingest and outcomes for binding, from outside the mesh.

They are received, not decided: a record keeps them whole, beside the events decided from them.
Columns run over pods in parallel (`uids`, `names`, ... joined; `revisions` packed int64).
"""

from shared.events.base import Event
from shared.model.cluster_objects import ClusterObject
from shared.model.ids import NO_POD, AskId, EffectId, PodId
from shared.model.objects import Budget, Gang, Node, PodSpec
from shared.model.preemption.victims import NodeVictims


class WorldOpened(Event, frozen=True, gc=False):
    """The cluster's identity (kube-system's uid): a journal never mixes two clusters."""

    cluster: str


class LeadSeen(Event, frozen=True, gc=False):
    """Whether this process leads. While it does not, a new world is read but not complete, so that
    no pod is placed.
    """

    leads: bool


class ClusterRestored(Event, frozen=True, gc=False):
    """The cluster was restored from a backup: its revision is below one seen before."""

    revision: int


class PodsSeen(Event, frozen=True, gc=False):
    """Pods of one spec, namespace and label set, added or changed.

    `nodes` is the joined column of node names ("-": unassigned) or empty if all are unassigned.
    `gang` is the group's key ("namespace/name"), empty for none; `gang_count` is its minCount if it
    has no object and exists while pods name it. `ordered_ms` is one arrival time
    for all. `gated` pods wait until they are seen again without gates; `terminating` ones have a
    deletionTimestamp. `owner` is the controller (KIND/NAME) if it is of a kind used by default
    spreading (shared/model/pod_rules/default_spread.py).
    """

    spec: PodSpec
    uids: str
    names: str
    revisions: bytes
    namespace: str = "default"
    labels: tuple[tuple[str, str], ...] = ()
    nodes: str = ""
    gang: str = ""
    ordered_ms: int = 0
    gated: bool = False
    terminating: bool = False
    owner: str = ""
    gang_count: int = 0


class PodsBoundSeen(Event, frozen=True, gc=False):
    """Known pods that now have a node, bound by us or by others."""

    uids: str
    nodes: str
    revisions: bytes


class PodsStartedSeen(Event, frozen=True, gc=False):
    """When pods with a node were started there (`status.startTime`, ms since the epoch): sent once
    for each pod, and again in every list.
    """

    uids: str
    starts_ms: bytes


class PodsDeletedSeen(Event, frozen=True, gc=False):
    """Pods that were deleted, or that finished and use nothing. `finished`: none of them is known
    to have been deleted. `lost`: others may come in their place, as they failed or were deleted,
    and no scheduler evicted them.
    """

    uids: str
    finished: bool = False
    lost: bool = False


class NodesSeen(Event, frozen=True, gc=False):
    """Nodes added or changed."""

    nodes: tuple[Node, ...]


class NodesDeletedSeen(Event, frozen=True, gc=False):
    """Deleted nodes, by uid."""

    uids: str


class BudgetsSeen(Event, frozen=True, gc=False):
    """Disruption budgets added or changed."""

    budgets: tuple[Budget, ...]


class BudgetsDeletedSeen(Event, frozen=True, gc=False):
    """Deleted disruption budgets, by uid."""

    uids: str


class GangsSeen(Event, frozen=True, gc=False):
    """Pod groups added or changed."""

    gangs: tuple[Gang, ...]


class GangsDeletedSeen(Event, frozen=True, gc=False):
    """Deleted pod groups, by key."""

    keys: str


class ObjectsSeen(Event, frozen=True, gc=False):
    """Other objects added or changed."""

    objects: tuple[ClusterObject, ...]


class ObjectsDeletedSeen(Event, frozen=True, gc=False):
    """Deleted other objects, by uid."""

    uids: str


class ListBegan(Event, frozen=True, gc=False):
    """A full list of one kind (`pods`, `nodes`, `budgets`, `gangs`; `objects`: of all kinds of
    other objects together) starts. `marks`: how new it is of each part, where the cluster is
    watched in parts.
    """

    kind: str
    revision: int
    marks: tuple[tuple[str, int], ...] = ()


class ListEnded(Event, frozen=True, gc=False):
    """The list that began is complete and named `count` objects; what it did not name is gone."""

    kind: str
    count: int


class WatchAdvanced(Event, frozen=True, gc=False):
    """All up to this revision of the cluster has been offered (where a new owner resumes), and of
    parts that are watched by themselves all up to their marks; those that have not advanced are
    left out.
    """

    revision: int
    marks: tuple[tuple[str, int], ...] = ()


class InputRejected(Event, frozen=True, gc=False):
    """Foreign input that could not be used, and the rule it broke."""

    what: str
    field: str
    rule: str


class BindAnswers(Event, frozen=True, gc=False):
    """Answers to the binds of one effect: codes and revisions run parallel to `ids`.

    Codes are those of `shared.model.api_outcome.Answer`; `nodes` (packed node ids, -1 unassigned)
    only for answers that come from a read. `texts`: why an extender or a user's plugin did not bind
    them.
    """

    effect: EffectId
    ids: bytes
    codes: bytes
    revisions: bytes = b""
    nodes: bytes = b""
    texts: tuple[str, ...] = ()


class VolumeAnswers(Event, frozen=True, gc=False):
    """Answers to the writes of volumes and resource claims, one for all of a pod. If a pod has
    claims, `revisions` has their resourceVersions (int64) after DONE, by pod.
    """

    effect: EffectId
    ids: bytes
    codes: bytes
    revisions: tuple[bytes, ...] = ()


class ClaimReturnAnswers(Event, frozen=True, gc=False):
    """Answers to one effect that gives claims back, one for each return, in its order; after DONE
    with the resourceVersions (int64) of its claims.
    """

    effect: EffectId
    codes: bytes
    revisions: tuple[bytes, ...] = ()


class PreBindAnswers(Event, frozen=True, gc=False):
    """Answers of users' Permit or PreBind plugins. `texts`: why each pod may not be bound; empty:
    the plugins allow it, or are done. If any pod was rejected, `plugins` has the Permit plugin that
    rejected it, and `errors` whether the plugin failed instead. All run parallel to `ids`.
    """

    effect: EffectId
    ids: bytes
    texts: tuple[str, ...]
    plugins: tuple[str, ...] = ()
    errors: tuple[bool, ...] = ()


class PostBindAnswers(Event, frozen=True, gc=False):
    """Users' PostBind plugins were called for these pods."""

    effect: EffectId
    ids: bytes


class RequestAnswers(Event, frozen=True, gc=False):
    """The requests of an effect to the cluster autoscaler were written or given up; `messages`: why
    one was not, empty if it was or may have been.
    """

    effect: EffectId
    messages: tuple[str, ...]


class GroupAnswers(Event, frozen=True, gc=False):
    """The conditions of an effect were written, or given up."""

    effect: EffectId


class EvictAnswers(Event, frozen=True, gc=False):
    """Answers to evictions (deletes with uid precondition), by pod id."""

    effect: EffectId
    ids: bytes
    codes: bytes


class ExtendersPreempted(Event, frozen=True, gc=False):
    """The candidates of one effect that extenders left, with the victims that they chose. `error`:
    an extender failed that may not be ignored.
    """

    effect: EffectId
    ask: AskId
    pod: PodId
    candidates: tuple[NodeVictims, ...] = ()
    error: str = ""


class ExtendersAnswered(Event, frozen=True, gc=False):
    """The nodes of one ask that all extenders left. `scores`: what the extenders add to the totals
    (int64, parallel to `nodes`; empty: nothing). `failed`: (message, nodes) of the other nodes,
    sorted; `resolvable` counts those of them where removing pods could make room. `error`: an
    extender failed that may not be ignored.
    """

    ask: EffectId
    nodes: bytes = b""
    scores: bytes = b""
    failed: tuple[tuple[str, int], ...] = ()
    resolvable: int = 0
    error: str = ""
    pod: PodId = NO_POD
