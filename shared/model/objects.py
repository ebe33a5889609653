"""Frozen values of the domain: nodes, pod specs (signatures), budgets, gangs.

Quantities are integers in base units: cpu and gpu in milli, memory and storage in bytes, all else
in counts. Kubernetes' quantity strings are parsed elsewhere (shared/kubernetes/objects).
"""

from typing import Literal

from msgspec import Struct, structs

from shared.model.groups.below_minimum import BelowMinimum
from shared.model.groups.topology import NetworkTopology, Topology
from shared.model.pod_rules.pod_claims import PodClaim
from shared.model.volumes import PodVolume

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
HOSTNAME = "kubernetes.io/hostname"
EPHEMERAL_STORAGE = "ephemeral-storage"
GPU = "nvidia.com/gpu"

DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


class Taint(Struct, frozen=True, gc=False):
    """A node's taint."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE


class Toleration(Struct, frozen=True, gc=False):
    """A pod's toleration; empty key with Exists tolerates everything, empty effect any effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Requirement(Struct, frozen=True, gc=False):
    """One expression over a node's labels (or, in `fields`, over metadata.name)."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class SelectorTerm(Struct, frozen=True, gc=False):
    """Requirements that must all hold; a term with none matches nothing."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class PreferredTerm(Struct, frozen=True, gc=False):
    """A term worth `weight` (1..100) when it matches."""

    weight: int
    term: SelectorTerm


class HostPort(Struct, frozen=True, gc=False):
    """A port on the node itself; ip 0.0.0.0 clashes with every ip."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"


class GpuRequest(Struct, frozen=True, gc=False):
    """`count` devices of `milli` each: a fraction (milli < 1000, count 1) of one device, or
    `count` whole empty ones. `models` empty means any model.
    """

    milli: int
    count: int = 1
    models: tuple[str, ...] = ()


Selector = tuple[Requirement, ...]
"""Requirements on a pod's labels that must all hold; an empty selector selects every pod."""


class SpreadConstraint(Struct, frozen=True, omit_defaults=True, gc=False):
    """A topologySpreadConstraint. `hard`: DoNotSchedule. `selector` None matches no pod; the
    matchLabelKeys are part of it. `honor_affinity`, `honor_taints`: nodes that the pod's own node
    affinity or tolerations exclude are not counted.
    """

    topology_key: str
    max_skew: int
    hard: bool = True
    selector: Selector | None = None
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


class PodTerm(Struct, frozen=True, omit_defaults=True, gc=False):
    """A term of inter-pod affinity or anti-affinity: it selects the pods of `namespaces` and of
    the namespaces that `namespace_selector` matches (neither given: the pod's own) that `selector`
    matches (None: no pod), in one domain of `topology_key`. The (mis)matchLabelKeys are part of the
    selector.
    """

    topology_key: str
    selector: Selector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None


class PreferredPodTerm(Struct, frozen=True, gc=False):
    """A term worth `weight` (1..100; negative for anti-affinity) for each pod it matches."""

    weight: int
    term: PodTerm


class PodSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The scheduling-relevant part of a pod: equal specs are interchangeable.

    `requests` are the pod's effective requests, sorted by resource name. Only scores read the next
    four. `nonzero_*` are cpu and memory with kube-scheduler's defaults for containers that request
    none. `asked` (cpu, memory) and `asked_pages` (huge pages) are set if NodeResourcesFit counts
    other amounts while it scores this pod.

    `namespace`, `labels` (sorted by key) and `terminating` are the pod's identity; ingest sets them
    only as far as an inter-pod rule reads them. `spread_by` is the selector of its default spread.
    `images` are the images of its containers, `image_volumes` those that it mounts: sorted, each
    once, and empty if no node can have any. `shown` are the parts of its metadata that users'
    plugins read ("labels.KEY", ...), sorted. `volumes` are those that restrict where it may run, in
    the pod's order. `node_name` is the spec.nodeName of a pod that has no node: only cases of
    `muster score` have such pods. `features` are those of a kubelet that the pod needs, sorted.
    `part` is the pod's part of its gang. `queue` is the name of its queue, which ingest
    sets while there are queues. `claims` are its uses of resource claims, in its order.
    """

    priority: int = 0
    requests: tuple[tuple[str, int], ...] = ()
    nonzero_cpu_milli: int = DEFAULT_CPU_MILLI
    nonzero_memory_bytes: int = DEFAULT_MEMORY_BYTES
    asked: tuple[int, int] | None = None
    asked_pages: tuple[tuple[str, int], ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    affinity_required: tuple[SelectorTerm, ...] = ()
    affinity_preferred: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    gpu: GpuRequest | None = None
    never_preempts: bool = False
    scheduler: str = "default-scheduler"
    spread: tuple[SpreadConstraint, ...] = ()
    pod_affinity: tuple[PodTerm, ...] = ()
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    pods_preferred: tuple[PreferredPodTerm, ...] = ()
    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    terminating: bool = False
    spread_by: Selector = ()
    images: tuple[str, ...] = ()
    image_volumes: tuple[str, ...] = ()
    shown: tuple[tuple[str, str], ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    node_name: str = ""
    features: tuple[str, ...] = ()
    part: str = ""
    queue: str = ""
    claims: tuple[PodClaim, ...] = ()

    @property
    def has_rules(self) -> bool:
        """Return whether the pod has inter-pod rules."""
        terms = self.pod_affinity or self.pod_anti_affinity or self.pods_preferred
        return bool(terms or self.spread or self.spread_by)

    def anonymous(self) -> "PodSpec":
        """Return the spec without the pod's identity."""
        return structs.replace(
            self, namespace="", labels=(), terminating=False, spread_by=(), queue=""
        )

    def request(self, resource: str) -> int:
        """Return the requested amount of one resource, 0 if absent."""
        for name, amount in self.requests:
            if name == resource:
                return amount
        return 0


class Node(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node as the scheduler sees it. `allocatable` is sorted by resource name; `images` are
    packed as in shared/model/images.py; `features` are those that its kubelet declares, sorted.
    """

    uid: str
    name: str
    allocatable: tuple[tuple[str, int], ...] = ()
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    gpu_count: int = 0
    gpu_model: str = ""
    images: bytes = b""
    features: tuple[str, ...] = ()


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A PodDisruptionBudget: which pods it covers and how many disruptions it allows now.

    An empty selector (no labels, no expressions) covers no pod, as in kube-scheduler's preemption.
    `disrupted` are uids already counted in the status.
    """

    uid: str
    namespace: str
    name: str
    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[Requirement, ...] = ()
    allowed: int = 0
    disrupted: tuple[str, ...] = ()


class PartMinimum(Struct, frozen=True, omit_defaults=True, gc=False):
    """At least `members` of the part `name` of a gang and of the parts below it (`name/...`), or,
    with `parts`, of each of so many parts below it.
    """

    name: str
    members: int
    parts: int = 0


class Gang(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pod group that starts with at least `min_count` members or not at all. `topology`: where
    they must run together. `of_pods`: it has no object and exists while pods name it. `minimums`
    are those of its parts. `priority`: that of a PodGroup of scheduling.k8s.io, which its members
    must have. `is_unit`: its pods are evicted together (disruptionMode all). `keeps_minimum`: only
    those above `min_count` leave one by one. `provisioning`: the class with which the autoscaler is
    asked for nodes; empty: never. `network`: its topology follows from the HyperNodes of Volcano.
    `parent`: the key of the CompositePodGroup that it is in. `min_groups`: of a CompositePodGroup,
    how many groups in it must start (0: it is none). `created`: the creationTimestamp of a group in
    a tree, which orders the groups of a parent.
    `below_minimum`: what becomes of it when fewer run. `minimum_run_ms`: its pods are no victims
    before they have run for so long. `replacement_hold_ms`: for how long it keeps the place of a
    lost member; 0: not at all.
    """

    key: str
    min_count: int
    timeout_ms: int = 300_000
    version: int = 1
    topology: Topology | None = None
    of_pods: bool = False
    minimums: tuple[PartMinimum, ...] = ()
    priority: int | None = None
    is_unit: bool = False
    provisioning: str = ""
    network: NetworkTopology | None = None
    keeps_minimum: bool = False
    parent: str = ""
    min_groups: int = 0
    created: str = ""
    below_minimum: BelowMinimum | None = None
    minimum_run_ms: int = 0
    replacement_hold_ms: int = 0

    @property
    def is_in_tree(self) -> bool:
        """Return whether it is a CompositePodGroup, or in one."""
        return bool(self.parent or self.min_groups)
