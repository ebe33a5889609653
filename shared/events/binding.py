"""Events of binding's journal: requests to the API and their definite outcomes."""

from shared.events.base import Event
from shared.model.groups.provisioning import ProvisioningWrite
from shared.model.ids import AskId, AttemptId, EffectId, NodeId, PodId, placement
from shared.model.preemption.victims import NodeVictims
from shared.model.volumes import Choice


class BindsAsked(Event, frozen=True, gc=False):
    """Effect `effect`: bind each pod to its node under (uid, revision) preconditions."""

    effect: EffectId
    ids: bytes
    nodes: bytes
    revisions: bytes


class ReadsAsked(Event, frozen=True, gc=False):
    """Effect: read these pods back (after ASSIGNED or STALE)."""

    effect: EffectId
    ids: bytes


class FencesAsked(Event, frozen=True, gc=False):
    """Effect: raise these pods' resourceVersions by a status patch, so no older bind can land."""

    effect: EffectId
    ids: bytes


class GroupsAsked(Event, frozen=True, gc=False):
    """Effect: write the conditions of these PodGroups (`namespace/name`): scheduled where the
    message is empty, else why not; `errors` are those of them whose try ended in an error.
    """

    effect: EffectId
    keys: tuple[str, ...]
    messages: tuple[str, ...]
    errors: tuple[str, ...] = ()


class RequestsAsked(Event, frozen=True, gc=False):
    """Effect: create or delete these requests to the cluster autoscaler."""

    effect: EffectId
    requests: tuple[ProvisioningWrite, ...]


class ProvisioningRefused(Event, frozen=True, gc=False):
    """Why the requests of these gangs (by key) to the cluster autoscaler were not created."""

    keys: tuple[str, ...]
    messages: tuple[str, ...]

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class VolumesAsked(Event, frozen=True, gc=False):
    """Effect: write the chosen volumes for the claims of these pods, and their resource claims."""

    effect: EffectId
    ids: bytes


class VolumesGranted(Event, frozen=True, gc=False):
    """A shard's volume choices for a pod's claims and `node` (its name) are granted and no other
    pod gets them until they end. Sent only with several shards, which all choose. `number`
    identifies the promise.
    """

    number: int
    shard: int
    pod: PodId
    node: str
    volumes: tuple[Choice, ...]

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class VolumesTaken(Event, frozen=True, gc=False):
    """The volumes chosen for a reserved pod's claims are promised to another pod, or its resource
    claims are still being given back: it is given up and tried again after its backoff.
    """

    pod: PodId
    node: NodeId
    reason: str


class VolumesOver(Event, frozen=True, gc=False):
    """These promises (`numbers`) have ended: from positions `worlds` of the world journal on, facts
    show their outcome (0: no outcome).
    """

    numbers: bytes
    worlds: bytes

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class ClaimReturnsAsked(Event, frozen=True, gc=False):
    """Effect: give back what these numbers of returns (int64) name, so that no older write for
    their claims can land any more.
    """

    effect: EffectId
    numbers: bytes


class ClaimsReturned(Event, frozen=True, gc=False):
    """What became of the devices that the shard chose for these claims (joined uids) in this
    attempt: each shows it at its resourceVersion (`revisions`, int64), and no write of the attempt
    lands later. 0, or no revisions: none was sent, or the claim is gone.
    """

    shard: int
    pod: PodId
    attempt: AttemptId
    uids: str
    revisions: bytes = b""

    def to(self) -> tuple[str, ...]:
        return (placement(self.shard),)


class PermitsAsked(Event, frozen=True, gc=False):
    """Effect: ask users' Permit plugins about these pods; they answer like PreBind plugins. They
    may have been asked before.
    """

    effect: EffectId
    ids: bytes


class PreBindsAsked(Event, frozen=True, gc=False):
    """Effect: run users' PreBind plugins for these pods; they may have run before."""

    effect: EffectId
    ids: bytes


class PreBindFailed(Event, frozen=True, gc=False):
    """A user's Permit or PreBind plugin rejects the pod, or failed (`error`): the pod is given up,
    to be tried again. `plugin`: the Permit plugin that rejected it.
    """

    pod: PodId
    node: NodeId
    reason: str
    plugin: str = ""
    error: bool = False


class PostBindsAsked(Event, frozen=True, gc=False):
    """Effect: run users' PostBind plugins for these bound pods."""

    effect: EffectId
    ids: bytes


class EvictionsAsked(Event, frozen=True, gc=False):
    """Effect: delete these pods (uid precondition)."""

    effect: EffectId
    ask: AskId
    ids: bytes


class ExtendersPreemptAsked(Event, frozen=True, gc=False):
    """Effect `effect`: ask extenders for the victims of `pod`."""

    effect: EffectId
    ask: AskId
    pod: PodId
    candidates: tuple[NodeVictims, ...]


class VictimsJudged(Event, frozen=True, gc=False):
    """The candidates of an ask that extenders left, with their victims; `error` if they failed."""

    ask: AskId
    pod: PodId
    candidates: tuple[NodeVictims, ...] = ()
    error: str = ""

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class Bound(Event, frozen=True, gc=False):
    """The pod is definitely on the node we chose, or on a new node of its name: a bind names its
    node by name, so only the fact shows which.
    """

    ids: bytes
    nodes: bytes

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement", "preemption")


class BindFailed(Event, frozen=True, gc=False):
    """The pod is definitely not on the node we chose, and no bind of ours can land any more.

    `reason`: gone, foreign (it has a node of another name, or had one before ours was sent),
    abandoned (fenced; may be tried elsewhere), failed (the same after an extender or a user's
    plugin did not bind it; `texts` say why), or refused (by a user's plugin, or because its volumes
    are promised to another pod, before any bind was sent). After the last two it is tried again
    after its backoff, or, if a Permit plugin rejected it, after an event: `plugins` has the
    plugin's name, parallel to `ids`, if any did. `nodes`: the nodes that failed, parallel to `ids`:
    a shard that has placed the pod again before this arrives must not release the new reservation.
    """

    ids: bytes
    reason: str
    nodes: bytes = b""
    texts: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement", "permit")


class Evicted(Event, frozen=True, gc=False):
    """The API accepted the delete (or the pod was deleted already)."""

    ask: AskId
    ids: bytes

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class EvictionFailed(Event, frozen=True, gc=False):
    """The API refused to delete, or the eviction was recalled before it was sent."""

    ask: AskId
    ids: bytes
    reason: str

    def to(self) -> tuple[str, ...]:
        return ("preemption",)
