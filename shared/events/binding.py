"""Events of binding's journal: requests to the API and what definitely came of them."""

from shared.events.base import Event
from shared.model.victims import NodeVictims
from shared.model.volumes import Choice


class BindsAsked(Event, frozen=True, gc=False):
    """Effect `effect`: bind each pod to its node under (uid, revision) preconditions."""

    effect: int
    ids: bytes
    nodes: bytes
    revisions: bytes


class ReadsAsked(Event, frozen=True, gc=False):
    """Effect: read these pods back (after ASSIGNED or STALE)."""

    effect: int
    ids: bytes


class FencesAsked(Event, frozen=True, gc=False):
    """Effect: raise these pods' resourceVersions by a status patch, so no older bind can land."""

    effect: int
    ids: bytes


class VolumesAsked(Event, frozen=True, gc=False):
    """Effect: write the volumes that were chosen for the claims of these pods."""

    effect: int
    ids: bytes


class VolumesGranted(Event, frozen=True, gc=False):
    """What a shard chose for a pod's claims with `node` (its name) is nobody else's until it is
    over; told where there are several shards, which all choose. `number` is of this promise alone.
    """

    number: int
    shard: int
    pod: int
    node: str
    volumes: tuple[Choice, ...]

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class VolumesTaken(Event, frozen=True, gc=False):
    """What was chosen for the claims of a reserved pod is promised otherwise: it is given up, and
    tried again once its backoff is over.
    """

    pod: int
    node: int
    reason: str


class VolumesOver(Event, frozen=True, gc=False):
    """These promises (`numbers`) count no longer: from positions `worlds` of the world journal on
    facts say what became of them (0 = nothing).
    """

    numbers: bytes
    worlds: bytes

    def to(self) -> tuple[str, ...]:
        return ("placement",)


class PermitsAsked(Event, frozen=True, gc=False):
    """Effect: ask the permit plugins of users about these pods; what they say comes as what
    preBind plugins do. They may have been asked before.
    """

    effect: int
    ids: bytes


class PreBindsAsked(Event, frozen=True, gc=False):
    """Effect: have the preBind plugins of users run for these pods; they may have run before."""

    effect: int
    ids: bytes


class PreBindFailed(Event, frozen=True, gc=False):
    """A permit or preBind plugin of a user says no, or failed (`error`): the pod is given up, to be
    tried again. `plugin`: the permit plugin that says no.
    """

    pod: int
    node: int
    reason: str
    plugin: str = ""
    error: bool = False


class PostBindsAsked(Event, frozen=True, gc=False):
    """Effect: tell the postBind plugins of users that these pods are bound."""

    effect: int
    ids: bytes


class EvictionsAsked(Event, frozen=True, gc=False):
    """Effect: delete these pods (uid precondition)."""

    effect: int
    ask: int
    ids: bytes


class ExtendersPreemptAsked(Event, frozen=True, gc=False):
    """Effect `effect`: ask extenders who goes for `pod`."""

    effect: int
    ask: int
    pod: int
    candidates: tuple[NodeVictims, ...]


class VictimsJudged(Event, frozen=True, gc=False):
    """What extenders left of the candidates of an ask, and made of them; `error` as they failed."""

    ask: int
    pod: int
    candidates: tuple[NodeVictims, ...] = ()
    error: str = ""

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class Bound(Event, frozen=True, gc=False):
    """Definitely on the node we chose, or on one that was made again under its name: a bind names
    its node by name, so only the fact tells which.
    """

    ids: bytes
    nodes: bytes

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement", "preemption")


class BindFailed(Event, frozen=True, gc=False):
    """Definitely not on the node we chose, and no bind of ours can land any more.

    `reason`: gone, foreign (it has a node of another name, or had one before ours was sent),
    abandoned (fenced; may be tried elsewhere), failed (the same after an extender or a plugin of a
    user did not bind it; `texts` say why), or refused (by a plugin of a user, or because its
    volumes are promised otherwise, before any was sent). After the last two it is tried again once
    its backoff is over, or if a permit plugin says no once something has happened: `plugins` has
    its name, parallel to `ids`, where any did.
    `nodes` are the nodes that failed, parallel to `ids`: a shard that has placed the pod anew
    before this arrives must not give the new reservation back.
    """

    ids: bytes
    reason: str
    nodes: bytes = b""
    texts: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()

    def to(self) -> tuple[str, ...]:
        return ("queueing", "placement", "permit")


class Evicted(Event, frozen=True, gc=False):
    """The API accepted the delete (or the pod was gone already)."""

    ask: int
    ids: bytes

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


class EvictionFailed(Event, frozen=True, gc=False):
    """The API refused to delete, or the eviction was recalled before it was sent."""

    ask: int
    ids: bytes
    reason: str

    def to(self) -> tuple[str, ...]:
        return ("preemption",)


BindingEvent = (
    BindsAsked
    | ReadsAsked
    | FencesAsked
    | VolumesAsked
    | VolumesGranted
    | VolumesTaken
    | VolumesOver
    | PermitsAsked
    | PreBindsAsked
    | PreBindFailed
    | PostBindsAsked
    | EvictionsAsked
    | ExtendersPreemptAsked
    | VictimsJudged
    | Bound
    | BindFailed
    | Evicted
    | EvictionFailed
)
