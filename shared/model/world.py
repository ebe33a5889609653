"""A world: the objects of a simulated cluster and its future events, from any source."""

from msgspec import Struct

from shared.events.observed import PodsSeen
from shared.model.cluster_objects import ClusterObject
from shared.model.objects import Budget, Gang, Node


class Arrival(Struct, frozen=True, kw_only=True):
    """Pods that are created at `at_ms` of the world's time, and live `lifetime_ms` after they are
    bound (0 = for ever). `pods.revisions` is empty: the cluster gives them. `starts_ms` (since the
    epoch) runs parallel to the pods where some run on their nodes already; 0 = not started.
    """

    at_ms: int
    pods: PodsSeen
    lifetime_ms: int = 0
    starts_ms: bytes = b""


class Rejection(Struct, frozen=True):
    """Input that could not be used: file and row (`what`), field, and the rule it broke."""

    what: str
    field: str
    rule: str


class World(Struct, frozen=True, kw_only=True):
    """Objects at the start, arrivals in order of `at_ms`, and what was rejected on the way in."""

    name: str
    nodes: tuple[Node, ...]
    arrivals: tuple[Arrival, ...]
    budgets: tuple[Budget, ...] = ()
    gangs: tuple[Gang, ...] = ()
    objects: tuple[ClusterObject, ...] = ()
    rejected: tuple[Rejection, ...] = ()
