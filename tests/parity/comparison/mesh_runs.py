"""Whole runs of the mesh as questions to kube-scheduler: one for every decision in the journals.

A run plays a world from a backlog, and no pod ever leaves. So the basis of each decision is known
without any code of the product: the shard's nodes, and the pods that it has placed before.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from muster.cli.recorded_run import Recorded, recorded
from shared.events.base import Event
from shared.events.binding import VolumesGranted, VolumesOver
from shared.events.ingest import NodesSet, PodsNamed, StorageSet
from shared.events.placement import (
    CandidatesFound,
    Improved,
    Refused,
    Released,
    Reserved,
    ShardDigest,
    VolumesBound,
    VolumesFailed,
)
from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import own_events
from shared.model.cluster_objects import StorageObject
from shared.model.columns import size, split, unpack, unpack_totals
from shared.model.ids import BINDING, INGEST, JournalName, placement
from shared.model.volumes import Choice

Object = dict[str, Any]
WITHOUT_EFFECT = (CandidatesFound, Improved, ShardDigest, VolumesBound, VolumesFailed)


@dataclass
class Decision:
    """One pod's cycle on one shard: `node` empty = refused, with (message, nodes) pairs. Where
    searches end early, this one began at `start` and the next one begins at `next`. `storage` is
    what the shard had read of claims and volumes, `held` what reservations before it held, as
    (choice, node), `chosen` what this one chose.
    """

    pod: str
    nodes: tuple[str, ...]
    placed: tuple[tuple[str, str], ...]
    node: str = ""
    total: int = 0
    reasons: tuple[tuple[str, int], ...] = ()
    together: int = 1
    start: int = 0
    next: int = 0
    storage: tuple[StorageObject, ...] = ()
    held: tuple[tuple[Choice, str], ...] = ()
    chosen: tuple[Choice, ...] = ()


@dataclass
class World:
    """Nodes and pods as Kubernetes objects, pods by NAMESPACE/NAME, what selects pods, and the
    configuration, in which searches may end early.
    """

    nodes: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    selecting: list[Object] = field(default_factory=list)
    config: Object | None = None

    @property
    def samples(self) -> bool:
        """Return whether searches end early."""
        return self.config is not None and "percentageOfNodesToScore" in self.config

    def case(self, decision: Decision) -> Object:
        """Return the shard's question as a case."""
        objects = [*self.others(decision), *(self.nodes[name] for name in decision.nodes)]
        if decision.node and not self.samples:
            # Nodes of other shards take no pod, and count among those that have an image.
            objects += [
                _full(node) for name, node in self.nodes.items() if name not in decision.nodes
            ]
        for pod, node in decision.placed:
            given = self.pods[pod]
            objects.append(given | {"spec": given["spec"] | {"nodeName": node}})
        case: Object = {"objects": objects, "pods": [self.pods[decision.pod]]}
        if self.config is not None:
            case["config"] = self.config
        if self.samples:
            case["startIndex"] = decision.start
        return case

    def others(self, _decision: Decision) -> list[Object]:
        """Return the objects besides nodes and pods."""
        return self.selecting

    def objects(self) -> list[Object]:
        """Return all objects, as a folder of manifests may hold them."""
        return [*self.selecting, *self.nodes.values(), *self.pods.values()]


FEATURES = ("gpus", "port", "ports", "tolerates", "tolerates-all", "selects", "prefers", "nothing")


BETWEEN = ("spreads", "evens", "far", "near", "likes", "avoids", "nothing")
APPS = ("web", "db", "cache")
KEYS = ("zone", "kubernetes.io/hostname")
IMAGES = ("app", "base", "tools")


def sampled_world(seed: int, nodes: int, percent: int, scored: bool = True) -> World:
    """Return a world of this many nodes in zones, with searches that end early."""
    draw, made = Random(f"{seed}/sampled"), world(seed, each=True)
    given = list(made.nodes.values())
    for number in range(len(given), nodes):
        made.nodes[f"node-{number}"] = _node(draw, f"node-{number}")
    for node in made.nodes.values():
        if draw.random() < 0.9:
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = draw.choice("aaabc")
    off = {} if scored else {"plugins": {"score": {"disabled": [{"name": "*"}]}}}
    made.config = _config(off) | {"percentageOfNodesToScore": percent}
    return made


def packed_world(seed: int) -> World:
    """Return a world with a profile that fills nodes, by weighted resources."""
    made = world(seed, each=True)
    resources = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
    strategy = {"type": "MostAllocated", "resources": resources}
    args = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    made.config = _config({"pluginConfig": [args]})
    return made


def heavy_world(seed: int, between: bool) -> World:
    """Return a world with three profiles: the default one, and two with large weights."""
    made = world(seed, between=between)
    weights: tuple[dict[str, int], ...] = (
        {},
        {"NodeResourcesFit": 1_000},
        {"NodeResourcesFit": 1 << 30, "NodeAffinity": (1 << 31) - 1},
    )
    made.config = _config({})
    made.config["profiles"] = [
        {"schedulerName": f"profile-{number}", "plugins": {"score": {"enabled": _enabled(own)}}}
        for number, own in enumerate(weights)
    ]
    draw = Random(f"{seed}/heavy")
    for pod in made.pods.values():
        pod["spec"] = pod["spec"] | {"schedulerName": f"profile-{draw.randrange(len(weights))}"}
    return made


def _enabled(weights: dict[str, int]) -> list[Object]:
    return [{"name": name, "weight": weight} for name, weight in weights.items()]


def _config(profile: Object) -> Object:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"} | profile],
    }


def _full(node: Object) -> Object:
    amounts = node["status"]["allocatable"] | {"pods": "0"}
    return node | {"status": node["status"] | {"allocatable": amounts}}


def with_images(given: World, seed: int) -> World:
    """Return the world with images on its nodes."""
    draw = Random(f"images {seed}")
    sizes = {f"{one}:latest": draw.choice((9, 60, 333, 777, 1500)) << 20 for one in IMAGES}
    for node in given.nodes.values():
        has = [one for one in sizes if draw.random() < 0.5]
        node["status"]["images"] = [{"names": [one], "sizeBytes": sizes[one]} for one in has]
    specs = {id(pod["spec"]): pod["spec"] for pod in given.pods.values()}
    for spec in specs.values():  # one for each kind of pod
        spec["containers"][0]["image"] = draw.choice(IMAGES)
        if draw.random() < 0.3:
            spec["initContainers"] = [{"name": "init", "image": draw.choice(IMAGES)}]
    return given


def world(seed: int, each: bool = False, between: bool = False) -> World:
    """Uneven nodes and a few kinds of pods, many of each kind, some of which fit nowhere; with
    `each`, two kinds of pods for every feature; with `between`, inter-pod rules as well.
    """
    draw, made = Random(seed), World()
    for number in range(draw.randint(9, 24)):
        made.nodes[f"node-{number}"] = _node(draw, f"node-{number}")
    cordons = Random(f"{seed}/cordons")
    for node in made.nodes.values():
        if cordons.random() < 0.1:
            node["spec"]["unschedulable"] = True
    kinds = [[feature] for feature in (*FEATURES, *FEATURES)]
    if not each:
        count = draw.randint(4, 8)
        known = (*FEATURES, *BETWEEN) if between else FEATURES
        kinds = [[one for one in known if draw.random() < 0.2] for _ in range(count)]
    specs = [_spec(draw, features) for features in kinds]
    sizes = (12,) if each else (1, 3, 12, 25)
    labels = [{"app": draw.choice(APPS)} if between else {} for _ in kinds]
    order = [kind for kind in range(len(kinds)) for _ in range(draw.choice(sizes))]
    if draw.random() < 0.5:
        draw.shuffle(order)
    for number, kind in enumerate(order):
        name = f"pod-{number:03d}"
        made.pods[f"default/{name}"] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels[kind]},
            "spec": specs[kind],
        }
    return made


def hosts_world(seed: int) -> World:
    """Return a world with affinity and anti-affinity by host only, which several shards keep."""
    draw, made = Random(f"{seed}/hosts"), world(seed, each=True)
    specs = {id(pod["spec"]): pod["spec"] for pod in made.pods.values()}
    for number, spec in enumerate(specs.values()):
        feature = ("far", "likes", "avoids", "nothing")[number % 4]
        _add_rules(draw, spec, [feature], ("kubernetes.io/hostname",))
    apps = {number: draw.choice(APPS) for number in specs}
    for pod in made.pods.values():
        pod["metadata"]["labels"] = {"app": apps[id(pod["spec"])]}
    return made


def spread_world(seed: int) -> World:
    """A world with inter-pod rules in which Services and controllers select some of the pods;
    its nodes have a zone as clouds name it, or none.
    """
    draw, made = Random(f"{seed}/spread"), world(seed, between=True)
    for node in made.nodes.values():
        if draw.random() < 0.8:
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = draw.choice("abc")
    for number in range(draw.randint(1, 4)):
        selector: Object = {"app": draw.choice(APPS)}
        if draw.random() < 0.3:
            selector["tier"] = "front"
        made.selecting.append(_selecting("Service", "v1", f"service-{number}", selector))
    owners = [_controller(draw, number) for number in range(3)]
    made.selecting += owners
    for pod in made.pods.values():
        owner = draw.choice((None, *owners))
        if draw.random() < 0.5:
            pod["metadata"]["labels"] = pod["metadata"]["labels"] | {"tier": "front"}
        if owner is not None:
            ref = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
            ref |= {"name": owner["metadata"]["name"], "uid": "u"}
            pod["metadata"]["ownerReferences"] = [ref]
    return made


def _controller(draw: Random, number: int) -> Object:
    """Return a controller of existing pods: it selects some of the world's."""
    kind = draw.choice(("ReplicaSet", "StatefulSet", "ReplicationController"))
    selector: Object = {"app": draw.choice(APPS)}
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    labels = dict(selector)
    if version != "v1":
        needs = {"key": "tier", "operator": draw.choice(("Exists", "DoesNotExist"))}
        more: Object = draw.choice(({}, {"matchExpressions": [needs]}))
        if more and needs["operator"] == "Exists":
            labels["tier"] = "front"
        selector = {"matchLabels": selector} | more
    made = _selecting(kind, version, f"owner-{number}", selector)
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}}
    made["spec"] |= {"replicas": 0, "template": template}
    return made


def _selecting(kind: str, version: str, name: str, selector: Object) -> Object:
    metadata = {"name": name, "namespace": "default"}
    spec = {"selector": selector}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _node(draw: Random, name: str) -> Object:
    labels = {"kubernetes.io/hostname": name, "zone": draw.choice("abc")}
    if draw.random() < 0.3:
        labels["disk"] = draw.choice(("ssd", "hdd"))
    effect = draw.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
    taints = [{"key": "dedicated", "value": "x", "effect": effect}]
    allocatable = {
        "cpu": draw.choice(("2", "4", "4", "7910m")),
        "memory": draw.choice(("4Gi", "8Gi", "8Gi", "15Gi")),
        "pods": draw.choice(("110", "110", "5")),
    }
    if draw.random() < 0.3:
        allocatable["nvidia.com/gpu"] = draw.choice(("1", "4"))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints} if draw.random() < 0.4 else {},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def _spec(draw: Random, features: Sequence[str]) -> Object:
    requests: dict[str, str] = {}
    if "nothing" not in features:
        requests["cpu"] = draw.choice(("100m", "333m", "500m", "1", "9"))
        requests["memory"] = draw.choice(("64Mi", "300M", "1Gi", "1Gi"))
    limits = {"nvidia.com/gpu": draw.choice(("1", "2"))} if "gpus" in features else {}
    container: Object = {"name": "c", "image": "i"}
    container["resources"] = {"requests": requests | limits, "limits": limits}
    ports = [8080] if "port" in features else [80, 8080] if "ports" in features else []
    container["ports"] = [{"containerPort": port, "hostPort": port} for port in ports]
    spec: Object = {"containers": [container]}
    if "tolerates" in features:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if "tolerates-all" in features:
        spec["tolerations"] = [{"operator": "Exists"}]
    if "selects" in features:
        spec["nodeSelector"] = {"zone": draw.choice("abc")}
    if "prefers" in features:
        spec["affinity"] = {"nodeAffinity": _preferred(draw)}
    _add_rules(draw, spec, features)
    return spec


def _add_rules(
    draw: Random, spec: Object, features: Sequence[str], keys: Sequence[str] = KEYS
) -> None:
    """Inter-pod rules; the first pod of its kind may have to be its own neighbour."""

    def term() -> Object:
        key = draw.choice(keys)
        selector = {"matchLabels": {"app": draw.choice(APPS)}}
        return {"topologyKey": key, "labelSelector": selector}

    for feature, way in (("spreads", "DoNotSchedule"), ("evens", "ScheduleAnyway")):
        if feature in features:
            rule = term() | {"maxSkew": draw.choice((1, 2, 3)), "whenUnsatisfiable": way}
            spec.setdefault("topologySpreadConstraints", []).append(rule)
    for feature, kind in (("near", "podAffinity"), ("far", "podAntiAffinity")):
        if feature in features:
            rules = spec.setdefault("affinity", {}).setdefault(kind, {})
            rules["requiredDuringSchedulingIgnoredDuringExecution"] = [term()]
    for feature, kind in (("likes", "podAffinity"), ("avoids", "podAntiAffinity")):
        if feature in features:
            rules = spec.setdefault("affinity", {}).setdefault(kind, {})
            weighted = {"weight": draw.choice((1, 20, 100)), "podAffinityTerm": term()}
            rules["preferredDuringSchedulingIgnoredDuringExecution"] = [weighted]


def _preferred(draw: Random) -> Object:
    needs = (
        {"key": "zone", "operator": "In", "values": [draw.choice("abc")]},
        {"key": "disk", "operator": "Exists"},
        {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
    )
    terms = [
        {"weight": draw.choice((1, 7, 50)), "preference": {"matchExpressions": [need]}}
        for need in draw.sample(needs, draw.randint(1, 3))
    ]
    return {"preferredDuringSchedulingIgnoredDuringExecution": terms}


async def decisions(run: Path) -> list[Decision]:
    """Return every decision of a recorded run's shards, in each shard's order."""
    async with recorded(run, "", 1) as found:
        pods: dict[int, str] = {}
        nodes: dict[int, dict[int, str]] = {shard: {} for shard in range(found.placements)}
        published: list[tuple[int, StorageSet]] = []
        async for position, event in _events(found, INGEST):
            if isinstance(event, StorageSet):
                published.append((position, event))
            if isinstance(event, PodsNamed):
                names = (f"{event.namespace}/{name}" for name in split(event.names))
                pods.update(zip(unpack(event.ids).tolist(), names, strict=True))
            elif isinstance(event, NodesSet):
                names = (node.name for node in event.nodes)
                nodes[event.shard].update(zip(unpack(event.ids).tolist(), names, strict=True))
        made: list[Decision] = []
        for shard, of_shard in nodes.items():
            placed: list[tuple[str, str]] = []
            start = 0
            held: dict[int, list[tuple[Choice, str]]] = {}
            elsewhere = Elsewhere(shard, [one async for one in _events(found, BINDING)])
            async for seen, event in _seen(found, placement(shard), BINDING):
                decided = _decided(event, pods, of_shard, placed)
                for one in decided:
                    examined = event.examined if isinstance(event, Reserved | Refused) else 0
                    one.start, start = start, (start + examined) % len(of_shard)
                    one.next = start
                    one.held = tuple(each for wait in held.values() for each in wait)
                    one.held += elsewhere.held(seen, event)
                if isinstance(event, Refused | Reserved):
                    _know(decided, published, event.world)
                _hold(event, of_shard, held)
                made += decided
    return made


def _know(decided: list[Decision], published: list[tuple[int, StorageSet]], world: int) -> None:
    """Apply the world journal up to the shard's position."""
    known: dict[str, StorageObject] = {}
    for position, event in published:
        if position < world:
            known |= {one.uid: one for one in event.objects}
    for one in decided:
        one.storage = tuple(known.values())


def _hold(event: Event, nodes: dict[int, str], held: dict[int, list[tuple[Choice, str]]]) -> None:
    if isinstance(event, Reserved) and event.volumes:
        (pod,), (node,) = unpack(event.ids).tolist(), unpack(event.nodes).tolist()
        held[pod] = [(choice, nodes[node]) for choice in event.volumes]
    elif isinstance(event, VolumesBound):
        for pod in unpack(event.ids).tolist():
            del held[pod]
    elif isinstance(event, Released | VolumesFailed):
        for pod in unpack(event.ids).tolist() if isinstance(event, Released) else [event.pod]:
            held.pop(pod, None)


class Elsewhere:
    """Choices of other shards as binding announced them, until facts end them."""

    def __init__(self, shard: int, published: list[tuple[int, Event]]) -> None:
        self._granted: dict[int, tuple[int, VolumesGranted]] = {}
        self._over: dict[int, tuple[int, int]] = {}
        for position, event in published:
            if isinstance(event, VolumesGranted) and event.shard != shard:
                self._granted[event.number] = position, event
            elif isinstance(event, VolumesOver):
                worlds = zip(
                    unpack(event.numbers).tolist(), unpack(event.worlds).tolist(), strict=True
                )
                self._over |= {number: (position, world) for number, world in worlds}

    def held(self, seen: int, event: Event) -> tuple[tuple[Choice, str], ...]:
        """Return the choices held at a decision with this position in binding's journal."""
        world = event.world if isinstance(event, Reserved | Refused) else 0
        found: list[tuple[Choice, str]] = []
        for number, (position, granted) in self._granted.items():
            over, until = self._over.get(number, (seen, 0))
            is_over = over < seen and until <= world
            if position < seen and not is_over:
                found += [(choice, granted.node) for choice in granted.volumes]
        return tuple(found)


def _decided(
    event: Event, pods: dict[int, str], nodes: dict[int, str], placed: list[tuple[str, str]]
) -> list[Decision]:
    names = tuple(nodes.values())
    if isinstance(event, Refused):
        asked = unpack(event.ids).tolist()
        assert event.nodes == len(names)
        return [Decision(pods[p], names, tuple(placed), reasons=event.reasons) for p in asked]
    if isinstance(event, Released):
        given_back = {pods[pod] for pod in unpack(event.ids).tolist()}
        placed[:] = [one for one in placed if one[0] not in given_back]
        return []
    if not isinstance(event, Reserved):
        assert isinstance(event, WITHOUT_EFFECT), f"{event} may change what a shard decides from"
        return []
    made = []
    columns = (unpack(event.ids), unpack(event.nodes), unpack_totals(event.totals, size(event.ids)))
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    for pod, node, total in rows:
        one = Decision(pods[pod], names, tuple(placed), nodes[node], total, together=len(rows))
        one.chosen = event.volumes
        made.append(one)
        placed.append((pods[pod], nodes[node]))
    return made


async def _events(run: Recorded, journal: JournalName) -> AsyncIterator[tuple[int, Event]]:
    async for position, record in Reader(journal, Cursor()).records(run.bus):
        for event in own_events(record, journal, position):
            yield position, event


async def _seen(
    run: Recorded, journal: JournalName, other: str
) -> AsyncIterator[tuple[int, Event]]:
    """Yield a journal's events with the position of another journal consumed before each."""
    seen = 0
    async for position, record in Reader(journal, Cursor()).records(run.bus):
        for consumed in record.consumed:
            if consumed.journal == other:
                seen = consumed.stop
        for event in own_events(record, journal, position):
            yield seen, event
