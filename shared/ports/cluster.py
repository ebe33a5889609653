"""The cluster as the mesh sees it: something to watch, and something that takes requests.

Two kinds of adapter stand behind it: the simulated cluster (shared/adapters) and a live Kubernetes
API. Requests are batches because a flood is columns; an adapter may send them one by one.
Answers are definite or say that they are not (`Answer.UNKNOWN`); nothing is raised for them.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from shared.events.base import Event
from shared.model.api_outcome import Answer
from shared.model.volumes import Choice

KINDS: tuple[str, ...] = ("nodes", "budgets", "gangs", "pods")
UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"
"""Reasons of the PodScheduled condition: nobody takes the pod, or trying it came to an error."""
OBJECTS = "objects"
"""All that pods belong to and ask for besides (shared/model/cluster_objects.py), as one kind."""
ALL_KINDS = (*KINDS[:-1], OBJECTS, KINDS[-1])
"""In the order in which they are listed: pods last."""


class BindRequest(Struct, frozen=True, gc=False):
    """One binding POST with its preconditions."""

    uid: str
    namespace: str
    name: str
    node: str
    revision: int


class PodRef(Struct, frozen=True, gc=False):
    """A pod to ask about or to change. `revision` is the highest resourceVersion that a request of
    ours carried; names and revision mean nothing to a cluster that finds pods by uid.
    """

    uid: str
    namespace: str = ""
    name: str = ""
    revision: int = 0


class VolumeRequest(Struct, frozen=True, gc=False):
    """What is to be written for a claim before its pod is bound to `node`: the volume is for it, or
    (where none was chosen) one is to be made for this node.
    """

    choice: Choice
    node: str


class PastBind(Struct, frozen=True, gc=False):
    """A bind that no request of this owner of binding made."""

    pod: PodRef
    node: str
    at_ms: int


class PodRead(Struct, frozen=True, gc=False):
    """What a read showed: `node` is empty while the pod is unassigned."""

    answer: Answer
    node: str = ""
    revision: int = 0


Marks = Mapping[str, int]
NO_MARKS: Marks = {}


class Watched(Struct, frozen=True, gc=False):
    """Observations up to and including one revision, in the cluster's order.

    A cluster that is watched in parts says in `marks` how far each of them has been told, by a name
    of its own: all that a list covers, and of a watch those that have advanced.
    """

    revision: int
    events: tuple[Event, ...]
    marks: Marks = NO_MARKS


class Gone(Exception):
    """The revision to resume from is no longer kept (410): list again."""


class Restored(Exception):
    """The cluster was restored from a backup: it is at an older revision than one that was seen."""


class Cluster(Protocol):
    """A client of the cluster. Every call may take long; none may be trusted to come back.

    `kinds` are those it can list, in the order in which they make sense: pods come last.
    """

    kinds: tuple[str, ...]

    async def identity(self) -> str:
        """A name that no other cluster has (the uid of kube-system)."""
        ...

    async def newest_revision(self) -> int:
        """The cluster's revision now. It falls only when the cluster is restored from a backup."""
        ...

    async def list_all(self, kind: str) -> Watched:
        """All objects of one of its `kinds`, consistently: none that was there at the revision is
        missing, though one that is newer than it may be there.
        """
        ...

    def watch(self, since: int, marks: Marks = NO_MARKS) -> AsyncIterator[Watched]:
        """Everything after a revision, for ever; of a part that has a mark beyond it nothing up to
        its mark. Raises Gone, Restored.
        """
        ...

    async def bind(self, requests: Sequence[BindRequest]) -> list[PodRead]:
        """POST bindings; the answers' revision is the pod's new one where DONE."""
        ...

    async def bind_volumes(self, requests: Sequence[VolumeRequest]) -> list[Answer]:
        """DONE once the volume names the claim, or the claim the node, whoever wrote it; REFUSED
        where it names another; GONE, BUSY, UNKNOWN.
        """
        ...

    async def read(self, pods: Sequence[PodRef]) -> list[PodRead]:
        """GET pods: DONE with node and revision, GONE, or UNKNOWN."""
        ...

    async def touch(
        self, pods: Sequence[PodRef], messages: Sequence[str], reasons: Sequence[str] = ()
    ) -> list[PodRead]:
        """Patch the PodScheduled=False condition: DONE once the resourceVersion is above the
        pod's `revision`, however often the same message is written. Without `reasons` all are
        UNSCHEDULABLE.
        """
        ...

    async def evict(self, pods: Sequence[PodRef], by: PodRef | None = None) -> list[Answer]:
        """Set DisruptionTarget and DELETE with uid precondition: DONE, GONE, REFUSED, UNKNOWN.
        `by` is the pod that takes their place, where it still lives.
        """
        ...

    def tell_of(self, binds: Sequence[PastBind], are_new: bool = False) -> None:
        """People may not have heard of these: see to it, once for each pod, when there is time.
        `are_new`: by others, but for us, just now. Nothing to do for a cluster without events.
        """
        ...
