"""A case for the scheduler: nodes, the pods on them, and pods without a node.

Objects are read by the rules of manifests (docs/reference/worlds.md). Finished pods use nothing;
other pods without a node are ignored. What kube-scheduler reads and Muster does not is refused, so
that an answer never differs for a hidden reason.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from shared.configuration.scheduler_config import config_of
from shared.kubernetes.objects.cluster_objects import budget_of, budget_rule_of, node_of
from shared.kubernetes.objects.default_spread import SPREADING, spreader_of
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.volume_objects import READERS, storage_object
from shared.model.cluster_objects import StorageObject
from shared.model.objects import GPU, Budget, Node
from shared.model.pod_rules.default_spread import Spreaders
from shared.model.profile import Configuration
from shared.model.release import DEFAULT_RELEASE, Release
from shared.worlds.arrivals import Pod, uid_of
from shared.worlds.controllers import Expansion
from shared.worlds.known_images import KnownImages
from shared.worlds.manifests import Object, check_version, expansion_of, namespace_of

READ = ("Node", "Pod", "PriorityClass", "PodDisruptionBudget", "Namespace")
ENDED = ("Succeeded", "Failed")
GPUS_MAX = 63  # of one pod
START_MAX = 1 << 31


class Placed(Struct, frozen=True):
    """A pod on a node. `preempted`: it is terminating because a scheduler preempted it."""

    pod: Pod
    preempted: bool = False


class Nominated(Struct, frozen=True):
    """A pod that is nominated to a node."""

    pod: Pod
    node: str


class Case(Struct, frozen=True):
    """The question: how each of `asked` fares on `nodes` with `placed` on them and `nominated`
    waiting for some, and with `preempt`, which pods those that fit nowhere would preempt.
    `namespaces` carry labels; `storage` has the volume-related objects. Where searches for nodes
    end early, the first search begins at `start_index`, and a pod's node in `asked_nodes` is tried
    first; `asked_gates` are the names of its scheduling gates.
    """

    nodes: tuple[Node, ...]
    placed: tuple[Placed, ...]
    nominated: tuple[Nominated, ...]
    asked: tuple[Pod, ...]
    budgets: tuple[Budget, ...] = ()
    preempt: bool = False
    namespaces: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    config: Configuration | None = None
    storage: tuple[StorageObject, ...] = ()
    start_index: int = 0
    asked_nodes: tuple[str, ...] = ()
    asked_gates: tuple[tuple[str, ...], ...] = ()


class _Pods:
    """Makes pods of a case's objects, with everything that inter-pod rules read."""

    def __init__(self, expansion: Expansion, spreaders: Spreaders, images: KnownImages) -> None:
        self._expansion, self._spreaders, self._images = expansion, spreaders, images

    def pod(self, one: Object) -> Pod:
        """Return the pod of one object."""
        (pod,) = self._expansion.pods(one.document, one.metadata, one.namespace)
        spec = msgspec.structs.replace(
            self._images.relevant(pod.spec),
            namespace=pod.namespace,
            labels=pod.labels,
            terminating=pod.terminating,
            spread_by=self._spreaders.selector(pod.namespace, pod.labels, pod.owner),
        )
        return msgspec.structs.replace(pod, spec=spec)


def case_of(what: str, value: object, release: Release = DEFAULT_RELEASE) -> Case:
    """Read {"objects": [...], "pods": [...]}. Raises WorldError naming object, field and rule."""
    document = Fields.root(what, value)
    document.only(("objects", "pods", "preempt", "config", "startIndex"))
    config = config_of(document.child("config"), release) if document.has("config") else None
    seen: set[tuple[str, str, str]] = set()
    objects = list(_objects(document, "objects", seen))
    classes = (one for one in objects if one.kind == "PriorityClass")
    nodes = tuple(node_of(one.metadata, one.document) for one in objects if one.kind == "Node")
    read = _Pods(expansion_of(classes, release=release), _spreaders(document), KnownImages(nodes))
    are_many = any(node.gpu_count > GPUS_MAX for node in nodes)
    asked, asked_nodes, asked_gates = [], [], []
    for one in _objects(document, "pods", seen):
        pod = read.pod(one)
        if pod.spec.gpu is not None and pod.spec.gpu.count > GPUS_MAX and are_many:
            rule = f"more than {GPUS_MAX} {GPU} for one pod are not supported"
            raise one.document.error("spec.containers", rule)
        spec = msgspec.structs.replace(pod.spec, node_name=pod.node)
        asked.append(msgspec.structs.replace(pod, spec=spec))
        gates = one.document.child("spec").children("schedulingGates")
        asked_gates.append(tuple(gate.text("name") for gate in gates))
        asked_nodes.append(one.document.child("status").text("nominatedNodeName"))
    names = frozenset(node.name for node in nodes)
    placed = tuple(_placed(objects, read, names))
    return Case(
        nodes,
        placed,
        tuple(_nominated(objects, read, names)),
        tuple(asked),
        tuple(_budget(one, placed) for one in objects if one.kind == "PodDisruptionBudget"),
        document.flag("preempt"),
        tuple((one.name, namespace_of(one).labels) for one in objects if one.kind == "Namespace"),
        config,
        tuple(_storage(document)),
        document.integer("startIndex", 0, 0, START_MAX),
        tuple(asked_nodes),
        tuple(asked_gates),
    )


def _storage(document: Fields) -> Iterator[StorageObject]:
    """Yield the volume-related objects."""
    seen: set[tuple[str, str, str]] = set()
    for item in document.children("objects"):
        kind = item.text("kind")
        if kind not in READERS:
            continue
        what = (
            f"{document.what}: {item.path}: {kind} {item.child('metadata').required_text('name')}"
        )
        object_given = Fields(what, "", item.values)
        check_version(object_given)
        one = storage_object(object_given)
        if (kind, one.namespace, one.name) in seen:
            raise Fields(what, "metadata", {}).error("name", "is a duplicate")
        seen.add((kind, one.namespace, one.name))
        yield one


def _objects(document: Fields, key: str, seen: set[tuple[str, str, str]]) -> Iterator[Object]:
    """Yield the objects of a list that matter for scheduling; `seen` collects all names."""
    for item in document.children(key):
        kind = item.required_text("kind")
        if key == "pods" and kind != "Pod":
            raise item.error("kind", "must be Pod")
        if item.has("items"):
            rule = f"is a list; write its objects into {key} themselves"
            raise item.error("kind", f"{kind} {rule}")
        if kind in READ:
            one = Object(Fields(f"{document.what}: {item.path}", "", item.values))
            if one.key in seen:
                raise one.metadata.error("name", "is a duplicate")
            seen.add(one.key)
            yield one


def _budget(one: Object, placed: tuple[Placed, ...]) -> Budget:
    """Return the budget as its status says, since no controller counts pods here. The status names
    the pods whose eviction it has counted.
    """
    rule = budget_rule_of(one.metadata, one.document, one.namespace)
    named = one.document.child("status").child("disruptedPods").values
    pods = (other.pod for other in placed)
    disrupted = (
        uid_of(pod) for pod in pods if pod.namespace == one.namespace and pod.name in named
    )
    return msgspec.structs.replace(
        budget_of(rule, 0), allowed=rule.allowed or 0, disrupted=tuple(disrupted)
    )


def _spreaders(document: Fields) -> Spreaders:
    found = Spreaders()
    for item in document.children("objects"):
        if item.text("kind") in SPREADING:
            one = Fields(f"{document.what}: {item.path}", "", item.values)
            check_version(one)
            metadata = one.child("metadata")
            found.put(spreader_of(one, metadata, metadata.text("namespace") or "default"))
    return found


def _placed(objects: list[Object], read: _Pods, nodes: frozenset[str]) -> Iterator[Placed]:
    for one in objects:
        if one.kind != "Pod" or one.document.child("status").text("phase") in ENDED:
            continue
        pod = read.pod(one)
        if pod.node in nodes:  # on a missing node it uses nothing,
            status = one.document.child("status")
            yield Placed(pod, pod.terminating and _is_preempted(status))


def _nominated(objects: list[Object], read: _Pods, nodes: frozenset[str]) -> Iterator[Nominated]:
    for one in objects:
        node = one.document.child("status").text("nominatedNodeName")
        if one.kind == "Pod" and node in nodes and not one.document.child("spec").has("nodeName"):
            yield Nominated(read.pod(one), node)


def _is_preempted(status: Fields) -> bool:
    """Return whether a scheduler preempted the pod. The first condition of the type counts."""
    for one in status.children("conditions"):
        if one.text("type") == "DisruptionTarget":
            return one.text("status") == "True" and one.text("reason") == "PreemptionByScheduler"
    return False
