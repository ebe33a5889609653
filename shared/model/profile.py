"""A scheduling profile: the plugins for pods of one schedulerName, with order, weights and
arguments. Values only, after defaults and multiPoint; names are kube-scheduler's.
"""

from msgspec import Struct, structs

from shared.extenders.values import Extender
from shared.model.election import Election
from shared.model.objects import CPU, MEMORY, PodSpec, PreferredTerm, SelectorTerm, SpreadConstraint
from shared.model.preemption.post_filter import FIRST
from shared.model.release import DEFAULT_RELEASE, NODE_DECLARED_FEATURES, V1_37, Release

LEAST_ALLOCATED, MOST_ALLOCATED = "LeastAllocated", "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"
STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)

DEFAULT_PREEMPTION, DYNAMIC_RESOURCES = "DefaultPreemption", "DynamicResources"
DEFAULT_SCHEDULER = "default-scheduler"
PRE_ENQUEUE, QUEUE_SORT, PRE_FILTER, FILTER = "preEnqueue", "queueSort", "preFilter", "filter"
POST_FILTER, PRE_SCORE, SCORE, RESERVE = "postFilter", "preScore", "score", "reserve"
PERMIT, PRE_BIND, BIND, POST_BIND = "permit", "preBind", "bind", "postBind"
POINTS = (
    *(PRE_ENQUEUE, QUEUE_SORT, PRE_FILTER, FILTER, POST_FILTER, PRE_SCORE, SCORE, RESERVE),
    *(PERMIT, PRE_BIND, BIND, POST_BIND),
)
_FILTERS, _SCORES = (PRE_FILTER, FILTER), (PRE_SCORE, SCORE)
PLUGINS: dict[str, tuple[str, ...]] = {
    "SchedulingGates": (PRE_ENQUEUE,),
    "PrioritySort": (QUEUE_SORT,),
    "NodeUnschedulable": (FILTER,),
    "NodeName": (FILTER,),
    "TaintToleration": (FILTER, *_SCORES),
    "NodeAffinity": (*_FILTERS, *_SCORES),
    "NodePorts": _FILTERS,
    "NodeResourcesFit": (*_FILTERS, *_SCORES),
    "VolumeRestrictions": _FILTERS,
    "NodeVolumeLimits": _FILTERS,
    "VolumeBinding": (*_FILTERS, *_SCORES, RESERVE, PRE_BIND),
    "VolumeZone": _FILTERS,
    "PodTopologySpread": (*_FILTERS, *_SCORES),
    "InterPodAffinity": (*_FILTERS, *_SCORES),
    "DynamicResources": (PRE_ENQUEUE, *_FILTERS, POST_FILTER, SCORE, RESERVE, PRE_BIND),
    "DefaultPreemption": (PRE_ENQUEUE, POST_FILTER),
    "NodeResourcesBalancedAllocation": _SCORES,
    "ImageLocality": (SCORE,),
    "DefaultBinder": (BIND,),
    "NodeDeclaredFeatures": _FILTERS,
}
"""Each plugin of the product with its extension points, in the order of the default profile of
1.35. shared/scheduling/profile.py makes them.
"""
_PRE_FILTERS_1_37 = ("NodeName", "NodeUnschedulable", "TaintToleration")
_MOVED_1_37 = {"NodeUnschedulable": "NodeName", "NodeName": "NodeUnschedulable"}


def default_plugins(release: Release) -> dict[str, tuple[str, ...]]:
    """Return the plugins of a release's default profile, in order, with their extension points."""
    found = dict(PLUGINS)
    if not release.has(NODE_DECLARED_FEATURES):
        del found["NodeDeclaredFeatures"]
    if release.version < V1_37:
        return found
    for name in _PRE_FILTERS_1_37:
        found[name] = (PRE_FILTER, *found[name])
    return {name: found[name] for name in (_MOVED_1_37.get(one, one) for one in found)}


WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
}
"""The weights of score plugins other than 1."""
_DEFAULTS = default_plugins(DEFAULT_RELEASE)
DEFAULT_FILTERS = tuple(name for name, points in _DEFAULTS.items() if FILTER in points)
DEFAULT_SCORES = tuple(
    (name, WEIGHTS.get(name, 1)) for name, points in _DEFAULTS.items() if SCORE in points
)
SYSTEM_SPREAD = (
    SpreadConstraint("kubernetes.io/hostname", 3, hard=False),
    SpreadConstraint("topology.kubernetes.io/zone", 5, hard=False),
)
NARROW_MAX = 299
"""The sum of a profile's score weights up to which 16 bits hold any total."""


class Strategy(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """NodeResourcesFit's scoringStrategy. `resources` are (name, weight); `shape` is
    (utilization in percent, score 0..100) with rising utilization, for RequestedToCapacityRatio.
    """

    kind: str = LEAST_ALLOCATED
    resources: tuple[tuple[str, int], ...] = ((CPU, 1), (MEMORY, 1))
    shape: tuple[tuple[int, int], ...] = ()


class CustomPlugin(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A user's plugin: name and SHA-256 of its file. `rejects`: it runs at preFilter. `args`: its
    `pluginConfig`, in JSON with sorted keys, empty if there is none.
    """

    name: str
    sha256: str
    rejects: bool = False
    args: str = ""


class Profile(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The plugins and their arguments for pods whose schedulerName is `name`.

    Filters: `names_nodes`: NodeAffinity runs at preFilter, where it leaves out nodes that the pod
    does not name. `keeps_to_node`: NodeName does the same there. NodeResourcesFit skips
    `ignored_resources`, and those in a group (the part before the slash) of `ignored_groups`. A
    node must also match `added_required` (None: no such terms), and `added_preferred` count like
    the pod's own. `percentage_of_nodes_to_score`: the share of nodes after which a search ends; 0:
    it follows from their number; None: no search ends early.

    Scores: `balanced` are the resources of NodeResourcesBalancedAllocation. `always_scored` are
    plugins that run without preScore: they score 0 for pods that preScore would have skipped.
    InterPodAffinity weighs the required affinity of existing pods with `hard_pod_affinity_weight`,
    and with `ignores_preferred_terms` skips pods that have no preferred terms themselves.
    `default_spread` are constraints, without selectors, of pods that have none; None: those built
    into kube-scheduler, which also score nodes without some of the keys. `volume_shape`:
    VolumeBinding's score (0..100) by the utilization of storage in percent, where it scores.

    Users' plugins: `custom` filter or score nodes, `pre_enqueue` gate pods, `queue_sort` orders
    them in place of PrioritySort, and `reserve` hand out resources of nodes. `permit`, `pre_bind`,
    `bind` (before DefaultBinder) and `post_bind` act when a pod is bound. `post_filter` are asked
    in order when no node fits a pod: users' plugins, and with them DefaultPreemption (if it
    `preempts`) and DynamicResources; empty without users' plugins. `claims`: the place of
    DynamicResources there (shared/model/preemption/post_filter.py).

    `has_extenders`: the configuration has extenders; `extended`: some of them filter or score
    nodes. `bind_timeout_ms`: how long a pod's claims may take to be bound.
    """

    name: str = DEFAULT_SCHEDULER
    names_nodes: bool = True
    keeps_to_node: bool = False
    filters: tuple[str, ...] = DEFAULT_FILTERS
    scores: tuple[tuple[str, int], ...] = DEFAULT_SCORES
    always_scored: tuple[str, ...] = ()
    preempts: bool = True
    strategy: Strategy = Strategy()
    balanced: tuple[str, ...] = (CPU, MEMORY)
    ignored_resources: tuple[str, ...] = ()
    ignored_groups: tuple[str, ...] = ()
    added_required: tuple[SelectorTerm, ...] | None = None
    added_preferred: tuple[PreferredTerm, ...] = ()
    hard_pod_affinity_weight: int = 1
    ignores_preferred_terms: bool = False
    default_spread: tuple[SpreadConstraint, ...] | None = None
    bind_timeout_ms: int = 600_000
    volume_shape: tuple[tuple[int, int], ...] = ((0, 100), (100, 0))
    custom: tuple[CustomPlugin, ...] = ()
    percentage_of_nodes_to_score: int | None = None
    extended: bool = False
    has_extenders: bool = False
    pre_enqueue: tuple[CustomPlugin, ...] = ()
    queue_sort: CustomPlugin | None = None
    reserve: tuple[CustomPlugin, ...] = ()
    permit: tuple[CustomPlugin, ...] = ()
    pre_bind: tuple[CustomPlugin, ...] = ()
    bind: tuple[CustomPlugin, ...] = ()
    post_bind: tuple[CustomPlugin, ...] = ()
    post_filter: tuple[CustomPlugin, ...] = ()
    claims: str = FIRST

    @property
    def makes_room(self) -> bool:
        """Return whether pods may be evicted for its pods."""
        return self.preempts or any(one.sha256 for one in self.post_filter)

    @property
    def acts_at_bind(self) -> bool:
        """Return whether users' plugins act when its pods are bound."""
        return bool(self.permit or self.pre_bind or self.bind or self.post_bind)

    @property
    def is_narrow(self) -> bool:
        """Return whether 16 bits hold the total of any node; 64 always do."""
        return sum(weight for _, weight in self.scores) <= NARROW_MAX

    def weight(self, plugin: str) -> int:
        """Return the weight of a score plugin, 0 if it does not run."""
        return dict(self.scores).get(plugin, 0)

    def constraints(self, spec: PodSpec) -> tuple[SpreadConstraint, ...]:
        """Return a pod's own spread constraints, or the default ones if something
        selects the pod.
        """
        if spec.spread or not spec.spread_by:
            return spec.spread
        chosen = SYSTEM_SPREAD if self.default_spread is None else self.default_spread
        return tuple(structs.replace(one, selector=spec.spread_by) for one in chosen)

    def needs_all_keys(self, spec: PodSpec) -> bool:
        """Return whether nodes without one of the keys are not scored."""
        return bool(spec.spread) or self.default_spread is not None


def default_profile(release: Release) -> Profile:
    """Return the profile that a release has without a configuration."""
    plugins = default_plugins(release)
    return Profile(
        filters=tuple(name for name, points in plugins.items() if FILTER in points),
        keeps_to_node=PRE_FILTER in plugins["NodeName"],
    )


class Configuration(Struct, frozen=True, kw_only=True):
    """The parts of a KubeSchedulerConfiguration that Muster uses."""

    profiles: tuple[Profile, ...]
    backoff_initial_ms: int = 1_000
    backoff_max_ms: int = 10_000
    extenders: tuple[Extender, ...] = ()
    election: Election | None = None
