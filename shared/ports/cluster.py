"""The cluster as the mesh sees it: it can be watched, and it takes requests.

There are two adapters: the simulated cluster (shared/simulated) and a live Kubernetes API
(shared/kubernetes). Requests are batches because a flood is columns; an adapter may send them one
by one. Answers are definite or `Answer.UNKNOWN`; no exception is raised for them.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from shared.events.base import Event
from shared.model.api_outcome import Answer
from shared.model.claims import ClaimChoice
from shared.model.volumes import Choice

KINDS: tuple[str, ...] = ("nodes", "budgets", "gangs", "pods")
UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"
"""Reasons of the PodScheduled condition: no node fits the pod, or trying it ended in an error."""
OBJECTS = "objects"
"""All other objects that pods belong to or ask for (shared/model/cluster_objects.py),
as one kind.
"""
ALL_KINDS = (*KINDS[:-1], OBJECTS, KINDS[-1])
"""In the order of listing: pods last."""


class BindRequest(Struct, frozen=True, gc=False):
    """One binding POST with its preconditions."""

    uid: str
    namespace: str
    name: str
    node: str
    revision: int


class PodRef(Struct, frozen=True, gc=False):
    """A pod to read or change. `revision`: the highest resourceVersion that a request of ours
    carried. Names and revision have no meaning for a cluster that finds pods by uid.
    `is_beyond_budget`: it is evicted though its budget does not allow that. `is_below_minimum`: it
    is evicted for no pod, but as its gang is below its minCount. `claimed_for`: it is evicted to
    give this queue its guarantee.
    """

    uid: str
    namespace: str = ""
    name: str = ""
    revision: int = 0
    is_beyond_budget: bool = False
    is_below_minimum: bool = False
    claimed_for: str = ""


class VolumeRequest(Struct, frozen=True, gc=False):
    """The write for a claim before its pod is bound to `node`: bind this volume to it, or, without
    one, provision a volume for this node.
    """

    choice: Choice
    node: str


class ClaimsRequest(Struct, frozen=True, gc=False):
    """The writes for a pod's resource claims: each gets its devices and the pod as a user; or,
    `gives_back`, the pod (if one is named) uses none of them any more. Then the claims change only
    at the revisions of `choices`.
    """

    pod: PodRef
    choices: tuple[ClaimChoice, ...]
    gives_back: bool = False


class ClaimsAnswer(Struct, frozen=True, gc=False):
    """The answer to a ClaimsRequest. If DONE or STALE, `revisions` has the resourceVersion of each
    claim as it was read or written last, 0 if it is gone. After DONE no older write of devices can
    land.
    """

    answer: Answer
    revisions: tuple[int, ...] = ()


class PastBind(Struct, frozen=True, gc=False):
    """A bind that this owner of binding did not request."""

    pod: PodRef
    node: str
    at_ms: int


class GroupCondition(Struct, frozen=True, gc=False):
    """What a PodGroup's condition is to say: why it has no nodes (`is_error`: its try ended in an
    error); empty if it was scheduled.
    """

    namespace: str
    name: str
    message: str
    is_error: bool = False


class NodesRequest(Struct, frozen=True, gc=False):
    """A request to the cluster autoscaler for the gang of this key: nodes for so many (`counts`)
    pods like each of `samples`. With a `uid`: it is to be deleted.
    """

    namespace: str
    name: str
    key: str
    class_name: str = ""
    samples: tuple[PodRef, ...] = ()
    counts: tuple[int, ...] = ()
    uid: str = ""


class PodRead(Struct, frozen=True, gc=False):
    """The result of a read: `node` is empty while the pod is unassigned."""

    answer: Answer
    node: str = ""
    revision: int = 0


Marks = Mapping[str, int]
NO_MARKS: Marks = {}


class Watched(Struct, frozen=True, gc=False):
    """Observations up to and including one revision, in the cluster's order.

    A cluster that is watched in parts has in `marks` how far each part is observed, by a name of
    its own: everything that a list covers, or the parts of a watch that have advanced.
    """

    revision: int
    events: tuple[Event, ...]
    marks: Marks = NO_MARKS


class Gone(Exception):
    """The revision to resume from is compacted (410): list again."""


class Restored(Exception):
    """The cluster was restored from a backup: its revision is below one seen before."""


class Cluster(Protocol):
    """A client of the cluster. Every call may take long, or never return.

    `kinds` are those it can list, in the order of listing: pods come last.
    """

    kinds: tuple[str, ...]

    async def identity(self) -> str:
        """Return the cluster's unique identity (the uid of kube-system)."""
        ...

    async def newest_revision(self) -> int:
        """Return the cluster's present revision. It falls only when the cluster is restored from a
        backup.
        """
        ...

    async def list_all(self, kind: str) -> Watched:
        """Return all objects of one of its `kinds`, consistently: none that existed at the revision
        is missing, though a newer one may be included.
        """
        ...

    def watch(self, since: int, marks: Marks = NO_MARKS) -> AsyncIterator[Watched]:
        """Yield everything after a revision, for ever; of a part with a mark beyond it, nothing up
        to its mark. Raises Gone, Restored.
        """
        ...

    async def bind(self, requests: Sequence[BindRequest]) -> list[PodRead]:
        """POST bindings and return the answers; the revision is the pod's new one if DONE."""
        ...

    async def bind_volumes(self, requests: Sequence[VolumeRequest]) -> list[Answer]:
        """Bind volumes and return the answers: DONE once the volume names the claim, or the claim
        the node, whoever wrote it; REFUSED if it names another; GONE, BUSY, UNKNOWN.
        """
        ...

    async def write_claims(self, requests: Sequence[ClaimsRequest]) -> list[ClaimsAnswer]:
        """Write resource claims and return one answer for each request: DONE once all its claims
        have these devices and the pod as a user; REFUSED if one has others, or is not of the
        choice's revision. When giving back, DONE: no claim names the pod, those that no pod uses
        have no devices, and no older write of devices can land; STALE if one is not of the choice's
        revision. GONE, BUSY, UNKNOWN.
        """
        ...

    async def read(self, pods: Sequence[PodRef]) -> list[PodRead]:
        """GET pods and return the answers: DONE with node and revision, GONE, or UNKNOWN."""
        ...

    async def touch(
        self, pods: Sequence[PodRef], messages: Sequence[str], reasons: Sequence[str] = ()
    ) -> list[PodRead]:
        """Patch the PodScheduled=False condition and return the answers: DONE once the
        resourceVersion is above the pod's `revision`, however often the same message is written.
        Without `reasons` all are UNSCHEDULABLE.
        """
        ...

    async def evict(self, pods: Sequence[PodRef], by: PodRef | None = None) -> list[Answer]:
        """Set DisruptionTarget and DELETE with uid precondition; return the answers: DONE, GONE,
        REFUSED, UNKNOWN. `by` is the preemptor, if it still lives.
        """
        ...

    async def show_groups(self, groups: Sequence[GroupCondition]) -> None:
        """Write whether these pod groups were scheduled, best effort. Does nothing for a cluster
        without PodGroup objects.
        """
        ...

    async def request_nodes(self, requests: Sequence[NodesRequest]) -> list[str]:
        """Create or delete requests to the cluster autoscaler, and return why each was not written:
        empty if it was or may have been. One that exists already is left as it is.
        """
        ...

    def announce_binds(self, binds: Sequence[PastBind], are_new: bool = False) -> None:
        """Emit missing Scheduled events, once per pod, best effort. `are_new`: bound just now by a
        plugin or extender for us. Does nothing for a cluster without events.
        """
        ...
