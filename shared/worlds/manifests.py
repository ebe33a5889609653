"""Folders and files of Kubernetes manifests as a world (rules: docs/reference/worlds.md)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from shared.kubernetes.objects import affinity
from shared.kubernetes.objects.claims.watched import CLASS, SLICE, TAINT_RULE
from shared.kubernetes.objects.cluster_objects import (
    BudgetRule,
    budget_of,
    budget_rule_of,
    node_as_registered,
    node_of,
    priority_class_of,
)
from shared.kubernetes.objects.default_spread import DEPLOYMENT, SPREADING, spreader_of
from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.groups.composite import (
    COMPOSITE_VERSION,
    COMPOSITES,
    composite_of,
)
from shared.kubernetes.objects.groups.hyper_nodes import HYPER_NODES_VERSION, hyper_node
from shared.kubernetes.objects.groups.other_schedulers import BY_VERSION, name_with_kind
from shared.kubernetes.objects.groups.pod_groups import (
    POD_GROUP_VERSIONS,
    WORKLOAD_VERSION,
    Group,
    gangs_of,
    group_of,
    groups_of,
)
from shared.kubernetes.objects.pod_templates import PriorityClass
from shared.kubernetes.objects.queues import QUEUES_VERSION, queue
from shared.kubernetes.objects.volume_objects import READERS, TIMES, identified, storage_object
from shared.model.cluster_objects import (
    ClusterObject,
    HyperNode,
    Namespace,
    PersistentVolumeClaim,
    Queue,
)
from shared.model.groups.hyper_nodes import Trees
from shared.model.objects import Budget, Gang, Node, PodSpec
from shared.model.queues import tree_faults
from shared.model.release import COMPOSITE_POD_GROUP, DEFAULT_RELEASE, Release
from shared.model.text import did_you_mean, quoted
from shared.model.world import Rejection, World
from shared.worlds.api_rules import check_annotations, check_node
from shared.worlds.arrivals import Pod, arrivals_of
from shared.worlds.capacity import check_gangs
from shared.worlds.claim_templates import claims_of
from shared.worlds.controllers import METADATA_FIELDS, POD_KINDS, Expansion, pod_names
from shared.worlds.device_claims import DEVICE_KINDS, device_objects
from shared.worlds.documents import STDIN, manifest_files, read_objects
from shared.worlds.known_images import KnownImages

HYPER_NODE, QUEUE = "HyperNode", "Queue"
API_VERSIONS = {
    "Node": "v1",
    "Pod": "v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
    "Workload": WORKLOAD_VERSION,
    "PodGroup": POD_GROUP_VERSIONS[0],
    COMPOSITE_POD_GROUP: COMPOSITE_VERSION,
    "Namespace": "v1",
    "Service": "v1",
    "ReplicationController": "v1",
    "PersistentVolume": "v1",
    "PersistentVolumeClaim": "v1",
    **dict.fromkeys(("StorageClass", "CSINode", "CSIDriver"), "storage.k8s.io/v1"),
    **dict.fromkeys(("CSIStorageCapacity", "VolumeAttachment"), "storage.k8s.io/v1"),
    **dict.fromkeys(DEVICE_KINDS, "resource.k8s.io/v1"),
    HYPER_NODE: HYPER_NODES_VERSION,
    QUEUE: QUEUES_VERSION,
}
DECIDES_NOTHING = "objects of this kind do not affect scheduling"
IGNORED = {
    "CronJob": "schedules are not played; give the Jobs that they would make",
}
ALIKE = 0.8
"""How like a known kind an unknown one must be for a suggestion: ServiceAccount is no Service."""
NAME_LABEL = "kubernetes.io/metadata.name"
CLUSTER_KINDS = (
    *("Node", "PriorityClass", "Namespace", HYPER_NODE, QUEUE, CLASS, SLICE, TAINT_RULE),
    *(kind for kind, (_, is_namespaced) in READERS.items() if not is_namespaced),
)
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def check_version(document: Fields) -> None:
    """Check that an object of a known kind has the API version that is read here. Raises
    WorldError.
    """
    kind = document.text("kind")
    of_groups = (*POD_GROUP_VERSIONS, *BY_VERSION)
    versions = of_groups if kind == "PodGroup" else (API_VERSIONS[kind],)
    if document.text("apiVersion") not in versions:
        raise document.error("apiVersion", f"must be {' or '.join(versions)}")


class Object:
    """One object of a known kind, with its name checked."""

    def __init__(self, document: Fields) -> None:
        self.kind = document.text("kind")
        metadata = document.child("metadata")
        self.name = metadata.required_text("name")
        self.namespace = metadata.text("namespace") or "default"
        if _NAME.fullmatch(self.name) is None:
            raise metadata.error("name", f"{shown(self.name)} is not a name")
        known_as = (
            self.name if self.kind in CLUSTER_KINDS else f"{quoted(self.namespace)}/{self.name}"
        )
        what = f"{document.what.partition(' document ')[0]}: {self.kind} {known_as}"
        self.document = Fields(what, "", document.values)
        self.metadata = self.document.child("metadata")
        self.metadata.only(METADATA_FIELDS)
        check_annotations(self.metadata, self.kind, self.kind in POD_KINDS)
        for key in TIMES:
            self.metadata.time_ms(key)
        check_version(self.document)

    @property
    def key(self) -> tuple[str, str, str]:
        scope = "" if self.kind in CLUSTER_KINDS else self.namespace
        return self.kind, scope, self.group_name

    @property
    def group_name(self) -> str:
        """Return the name, of a group of another scheduler with the scheduler's."""
        other = BY_VERSION.get(self.document.text("apiVersion"))
        if self.kind == COMPOSITE_POD_GROUP:
            other = COMPOSITES
        return name_with_kind(self.name, other.name) if other else self.name


class _Reading:
    """What has been read so far."""

    def __init__(self, release: Release) -> None:
        self.composites = release.has(COMPOSITE_POD_GROUP)
        self.objects: list[Object] = []
        self.rejected: list[Rejection] = []
        self._seen: dict[tuple[str, str, str], str] = {}

    def add(self, document: Fields) -> None:
        kind = document.text("kind")
        if kind not in API_VERSIONS:
            why = IGNORED.get(kind, DECIDES_NOTHING) + did_you_mean(kind, API_VERSIONS, ALIKE)
            self._ignore(document, why)
            return
        if kind == "Workload" and document.text("apiVersion") in POD_GROUP_VERSIONS:
            self._ignore(document, "it holds templates; the PodGroups made of them count")
            return
        if kind == COMPOSITE_POD_GROUP and not self.composites:
            self._ignore(document, f"the feature gate {kind} is off")
            return
        found = Object(document)
        first = self._seen.setdefault(found.key, document.what)
        if first != document.what:
            raise found.metadata.error("name", f"is a duplicate of {first}")
        self.objects.append(found)

    def _ignore(self, document: Fields, why: str) -> None:
        kind, name = document.text("kind"), document.child("metadata").text("name")
        rule = f"{quoted(kind)} {quoted(name)} is ignored: {why}"
        self.rejected.append(Rejection(document.what, "kind", rule))

    def of(self, *kinds: str) -> list[Object]:
        return [found for found in self.objects if found.kind in kinds]


def manifests_world(paths: Sequence[Path], release: Release = DEFAULT_RELEASE) -> World:
    """Return all objects of the given files and folders as one world, as a release reads them."""
    reading = _Reading(release)
    for path in manifest_files(paths):
        for document in read_objects(path):
            reading.add(document)
    groups = _groups(reading)
    nodes = tuple(_node(found) for found in reading.of("Node"))
    pods = _with_known_images(_pods(reading, groups, nodes, release), nodes)
    world = World(
        name=" ".join("stdin" if path == STDIN else path.resolve().name for path in paths),
        nodes=nodes,
        arrivals=arrivals_of(pods),
        budgets=_budgets(reading, pods),
        gangs=_gangs(pods, groups),
        objects=(*_objects(reading), *device_objects(reading.of(*DEVICE_KINDS), pods)),
        rejected=tuple(reading.rejected),
    )
    check_gangs(world, lambda gang: _place_of(gang, reading))
    return world


def _node(found: Object) -> Node:
    check_node(found.document.child("status"))
    return node_as_registered(node_of(found.metadata, found.document))


def _objects(reading: _Reading) -> Iterator[ClusterObject]:
    """Yield the objects other than pods that inter-pod and volume rules read."""
    yield from (namespace_of(found) for found in reading.of("Namespace"))
    for found in reading.of(*SPREADING, DEPLOYMENT):
        yield spreader_of(found.document, found.metadata, found.namespace)
    yield from (storage_object(found.document) for found in reading.of(*READERS))
    yield from _claims_of_sets(reading)
    yield from _hyper_nodes(reading)
    yield from _queues(reading)


def _queues(reading: _Reading) -> list[Queue]:
    """Return the Queues. Raises WorldError for a first one by which they are no tree."""
    given = reading.of(QUEUE)
    read = [queue(identified(found.document, is_namespaced=False)) for found in given]
    faults = tree_faults(read)
    for found in given:
        found.document.only(("apiVersion", "kind", "metadata", "spec", "status"))
        if found.name in faults:
            raise found.document.error(*faults[found.name])
    return read


def _hyper_nodes(reading: _Reading) -> list[HyperNode]:
    """Return the HyperNodes; those that are no part of a tree are named, too."""
    given = reading.of(HYPER_NODE)
    read = [hyper_node(identified(found.document, is_namespaced=False)) for found in given]
    faults = Trees(read).faults
    for found in given:
        if found.name in faults:
            field, rule = faults[found.name]
            reading.rejected.append(Rejection(found.document.what, field, f"is left out: {rule}"))
    return read


def _claims_of_sets(reading: _Reading) -> Iterator[PersistentVolumeClaim]:
    """Yield the claims that StatefulSets make; an existing claim is kept as it is."""
    known = {(one.namespace, one.name) for one in reading.of("PersistentVolumeClaim")}
    for found in reading.of("StatefulSet"):
        spec = found.document.child("spec")
        pods = pod_names(found.kind, found.name, spec)
        for claim in claims_of(spec, found.namespace, pods):
            if (claim.namespace, claim.name) not in known:
                known.add((claim.namespace, claim.name))
                yield claim


def namespace_of(found: Object) -> Namespace:
    """Return a namespace with the label that an API server adds."""
    found.document.only(("apiVersion", "kind", "metadata", "spec", "status"))
    labels = {NAME_LABEL: found.name} | found.metadata.mapping("labels")
    uid = found.metadata.text("uid") or f"namespace.{found.name}"
    return Namespace(uid=uid, name=found.name, labels=tuple(sorted(labels.items())))


def _place_of(gang: Gang, reading: _Reading) -> tuple[str, str]:
    """Return where a gang's minCount is written."""
    namespace, name, *group = gang.key.split("/")
    for found in reading.of("Workload" if group else "PodGroup"):
        if (found.namespace, found.group_name) == (namespace, name):
            if found.kind == "PodGroup" and found.group_name != found.name:
                return found.document.what, "spec.minMember"
            policy = f"podGroups[name={group[0]}].policy" if group else "schedulingPolicy"
            return found.document.what, f"spec.{policy}.gang.minCount"
    raise AssertionError(f"gang {gang.key} comes from no object")


def _groups(reading: _Reading) -> dict[str, Group]:
    """Return pod groups by the keys of their gangs, without replicas."""
    found: dict[str, Group] = {}
    for workload in reading.of("Workload"):
        groups = groups_of(workload.metadata, workload.document)
        for name, group in groups.items():
            found[f"{workload.namespace}/{workload.name}/{name}"] = group
    classes, default = _classes(reading.of("PriorityClass"))
    for one in reading.of("PodGroup"):
        one.document.only(("apiVersion", "kind", "metadata", "spec", "status"))
        other = BY_VERSION.get(one.document.text("apiVersion"))
        of_kube = partial(group_of, classes=classes, default=default, composites=reading.composites)
        read = other.read if other else of_kube
        found[f"{one.namespace}/{one.group_name}"] = read(one.metadata, one.document.child("spec"))
    for one in reading.of(COMPOSITE_POD_GROUP):
        one.document.only(("apiVersion", "kind", "metadata", "spec", "status"))
        key, spec = f"{one.namespace}/{one.group_name}", one.document.child("spec")
        found[key] = composite_of(one.metadata, spec, classes, default)
    return found


def _classes(given: Iterable[Object]) -> tuple[dict[str, PriorityClass], PriorityClass]:
    """Return the PriorityClasses by name, and the default one."""
    classes: dict[str, PriorityClass] = {}
    default, default_name = PriorityClass(0), ""
    for found in given:
        classes[found.name], is_default = priority_class_of(found.document)
        if is_default and default_name:
            raise found.document.error("globalDefault", f"{default_name} is the default already")
        if is_default:
            default, default_name = classes[found.name], found.name
    return classes, default


def expansion_of(
    classes_given: Iterable[Object],
    nodes: Sequence[Node] = (),
    release: Release = DEFAULT_RELEASE,
) -> Expansion:
    """Return what makes pods, with these PriorityClasses, and nodes for DaemonSets."""
    classes, default = _classes(classes_given)
    return Expansion(classes, default, nodes, release)


def _pods(
    reading: _Reading, groups: dict[str, Group], nodes: Sequence[Node], release: Release
) -> list[Pod]:
    expansion = expansion_of(reading.of("PriorityClass"), nodes, release)
    node_names = frozenset(node.name for node in nodes)
    found: list[Pod] = []
    names: dict[tuple[str, str], str] = {}
    for owner in reading.of(*POD_KINDS):
        for pod in expansion.pods(owner.document, owner.metadata, owner.namespace):
            first = names.setdefault((pod.namespace, pod.name), owner.document.what)
            if first != owner.document.what:
                rule = f"its pod {pod.name} is a duplicate of one of {first}"
                raise owner.metadata.error("name", rule)
            if pod.node and pod.node not in node_names:
                raise owner.document.error(
                    "spec.nodeName", f"no Node {shown(pod.node)} in this world"
                )
            found.append(_in_group(pod, groups))
    return found


def _with_known_images(pods: list[Pod], nodes: Sequence[Node]) -> list[Pod]:
    """Drop images that no node has. The pods of an owner keep sharing one spec."""
    images = KnownImages(nodes)
    specs: dict[int, PodSpec] = {}
    for pod in pods:
        if id(pod.spec) not in specs:
            specs[id(pod.spec)] = images.relevant(pod.spec)
    return [msgspec.structs.replace(pod, spec=specs[id(pod.spec)]) for pod in pods]


def _in_group(pod: Pod, groups: dict[str, Group]) -> Pod:
    """Return the pod as a part of its group, or without it if that is a basic one, which gates
    nothing.
    """
    group = _group_of(pod, groups)
    if group is not None and not group.is_gang:
        return msgspec.structs.replace(pod, gang="")
    part = group.part(dict(pod.labels)) if group is not None else ""
    if not part:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, part=part))


def _group_of(pod: Pod, groups: dict[str, Group]) -> Group | None:
    return groups.get("/".join(pod.gang.split("/")[:3])) if pod.gang else None


def _gangs(pods: Sequence[Pod], groups: dict[str, Group]) -> tuple[Gang, ...]:
    named = ((pod.gang, _group_of(pod, groups)) for pod in pods)
    composites = [(key, group) for key, group in groups.items() if group.rules.min_groups]
    known = [(key, group) for key, group in named if group is not None]
    return tuple(gangs_of((*composites, *known)))


def _budgets(reading: _Reading, pods: Sequence[Pod]) -> tuple[Budget, ...]:
    rules = [
        budget_rule_of(found.metadata, found.document, found.namespace)
        for found in reading.of("PodDisruptionBudget")
    ]
    return tuple(budget_of(rule, _covered(rule, pods)) for rule in rules)


def _covered(rule: BudgetRule, pods: Sequence[Pod]) -> int:
    return sum(
        1
        for pod in pods
        if pod.namespace == rule.namespace
        and affinity.selects(dict(pod.labels), rule.match_labels, rule.match_expressions)
    )
