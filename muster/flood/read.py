"""Reads a workload from YAML or JSON (docs/reference/floods.md). All functions raise WorldError,
which names the file, the field and the rule.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from muster.flood.workload import (
    Arrivals,
    Barrier,
    CreateNodes,
    CreateObjects,
    CreatePods,
    DeleteNodes,
    DeletePods,
    Process,
    Sleep,
    Step,
    Template,
    Workload,
)
from shared.kubernetes.objects.cluster_objects import node_as_registered, node_of
from shared.kubernetes.objects.default_spread import DEPLOYMENT, SPREADING, spreader_of
from shared.kubernetes.objects.errors import WorldError, shown
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.pod_templates import duration_ms, template_of
from shared.kubernetes.objects.volume_objects import READERS, storage_object
from shared.model.cluster_objects import ClusterObject, Namespace
from shared.model.objects import Node, PodSpec
from shared.model.pod_rules.pod_claims import has_templates
from shared.model.text import did_you_mean
from shared.worlds.api_rules import check_node, check_requests
from shared.worlds.device_claims import WATCHED, device_objects
from shared.worlds.documents import name_of, read_documents
from shared.worlds.manifests import NAME_LABEL, Object, namespace_of

COUNT_MAX = 10_000_000
PLAIN = "plain"
INDEX = "{{.Index}}"
"""Where scheduler_perf's templates of objects have the number of the object."""
OWN_PRIORITY = None
"""A flood has no PriorityClasses: `priority` counts as it is written."""
BUILT_IN: dict[str, Any] = {
    "spec": {
        "containers": [
            {"name": "pause", "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}}}
        ]
    }
}
"""The template `plain`, which is scheduler_perf's usual pod, and its usual node."""
NODE: dict[str, Any] = {"status": {"allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"}}}
ARRIVAL_FIELDS: dict[Process, tuple[str, ...]] = {
    "burst": ("size", "every"),
    "even": ("perSecond",),
    "poisson": ("perSecond",),
    "diurnal": ("perSecond", "swing", "period"),
}


def read_workload(path: Path, seed: int | None = None) -> Workload:
    """Return the workload of a file; `seed` replaces its own."""
    root = only_document(path)
    root.only(("name", "seed", "podTemplates", "steps"))
    own = root.integer("seed", 1, 0, 1 << 62)
    templates = dict(templates_of(root))
    steps = tuple(
        step
        for fields in root.children("steps")
        for step in _in_namespaces(_step(fields, templates), fields)
    )
    if not any(isinstance(step, CreatePods) for step in steps):
        raise root.error("steps", "must have a createPods")
    name = root.text("name") or (path.stem if path.name != "-" else "flood")
    return Workload(name, own if seed is None else seed, steps)


def only_document(path: Path) -> Fields:
    """Return the fields of a file's one document."""
    found = read_documents(path)
    if len(found) != 1:
        raise WorldError(name_of(path), "", "must hold one document")
    return Fields.root(name_of(path), found[0])


def templates_of(root: Fields) -> Iterator[tuple[str, Template]]:
    """Yield the templates of pods by name."""
    written = root.child("podTemplates")
    for name in {PLAIN: BUILT_IN} | written.values:
        at = written.at(name)
        values = written.child(name).values if name in written.values else BUILT_IN
        yield name, _template(name, Fields(root.what, at, values))


def _template(name: str, template: Fields) -> Template:
    template.only(("metadata", "spec"))
    metadata, spec = template.child("metadata"), template.child("spec")
    metadata.only(("labels", "annotations"))
    for key in ("nodeName", "schedulerName", "workloadRef"):
        if spec.has(key):
            raise spec.error(key, "cannot be part of a template")
    check_requests(spec)
    found = template_of(metadata, spec, {}, OWN_PRIORITY)
    is_numbered = INDEX in json.dumps(spec.values)
    if has_templates(found.spec.claims):
        raise spec.error(
            "resourceClaims", "must name claims: no controller makes any from templates"
        )
    own = _without_images(found.spec)
    return Template(name, own, found.labels, found.gated, is_numbered, template.values)


def _without_images(spec: PodSpec) -> PodSpec:
    """Return the spec without images: no node of a flood has any."""
    return structs.replace(spec, images=(), image_volumes=())


def pod_spec(template: Template, number: int) -> PodSpec:
    """Return the spec of one pod of a numbered template."""
    written = Fields(template.name, "", numbered(template.written, number))
    metadata, spec = written.child("metadata"), written.child("spec")
    return _without_images(template_of(metadata, spec, {}, OWN_PRIORITY).spec)


def _step(step: Fields, templates: Mapping[str, Template]) -> Step:
    opcode = step.required_text("opcode")
    if opcode not in _READERS:
        rule = f"{shown(opcode)} is not one of {', '.join(_READERS)}"
        raise step.error("opcode", rule + did_you_mean(opcode, _READERS))
    known, read = _READERS[opcode]
    step.only(("opcode", *known))
    return read(step, templates)


def _in_namespaces(step: Step, fields: Fields) -> Iterator[Step]:
    """Yield the step once, or in each namespace NAMESPACE-0 and on."""
    if not fields.has("namespaces"):
        yield step
        return
    assert isinstance(step, CreatePods), "no other step has namespaces"
    for number in range(_count(fields, "namespaces")):
        yield replace(step, namespace=f"{step.namespace}-{number}")


def _count(step: Fields, key: str = "count") -> int:
    if not step.has(key):
        raise step.error(key, "is required")
    return step.integer(key, 1, 1, COUNT_MAX)


def arrivals_of(step: Fields) -> Arrivals:
    """Return when the things of a step come; without `arrival` all at once."""
    if not step.has("arrival"):
        return Arrivals()
    arrival = step.child("arrival")
    process = arrival.one_of("process", tuple(ARRIVAL_FIELDS), "burst")
    kind: Process = next(one for one in ARRIVAL_FIELDS if one == process)
    arrival.only(("process", *ARRIVAL_FIELDS[kind]))
    per_second = arrival.number("perSecond")
    if kind != "burst" and not 0 < per_second <= COUNT_MAX:
        raise arrival.error("perSecond", f"must be more than 0 and at most {COUNT_MAX}")
    size = arrival.integer("size", 0, 1, COUNT_MAX)
    every_ms = duration_ms(arrival, "every", 0)
    if bool(size) != bool(every_ms):
        raise arrival.error("every" if size else "size", "is required: size and every go together")
    if kind != "diurnal":
        return Arrivals(kind, per_second, size, every_ms)
    swing = arrival.number("swing") if arrival.has("swing") else 0.8
    if not 0 < swing <= 1:
        raise arrival.error("swing", "must be more than 0 and at most 1")
    period_ms = duration_ms(arrival, "period", 0)
    if not period_ms:
        raise arrival.error("period", "is required")
    return Arrivals(kind, per_second, swing=swing, period_ms=period_ms)


def _create_nodes(step: Fields, _templates: Mapping[str, Template]) -> Step:
    prefix = step.text("prefix", "node")
    arrivals, runs_for_ms = arrivals_of(step), duration_ms(step, "runsFor", 0)
    zones, made = step.texts("zones"), node_made(step, prefix)
    return CreateNodes(prefix, _count(step), made, zones, arrivals, runs_for_ms)


def node_made(step: Fields, prefix: str) -> Node:
    """Return the node of a step's template, or the usual one, with a name to be replaced."""
    values = step.child("template").values if step.has("template") else NODE
    template = Fields(step.what, step.at("template"), values)
    template.only(("metadata", "spec", "status"))
    metadata = template.child("metadata")
    metadata.only(("labels", "annotations"))
    check_node(template.child("status"))
    named = {"kind": "Node", "apiVersion": "v1", **values}
    named["metadata"] = {**metadata.values, "name": prefix}
    document = Fields(step.what, step.at("template"), named)
    return node_as_registered(node_of(document.child("metadata"), document))


def _delete_nodes(step: Fields, _templates: Mapping[str, Template]) -> Step:
    return DeleteNodes(step.text("prefix", "node"), _count(step), arrivals_of(step))


def _mix(step: Fields, templates: Mapping[str, Template]) -> tuple[tuple[Template, int], ...]:
    """Return the templates of a step with their weights."""
    if step.has("template") and step.has("mix"):
        raise step.error("mix", "cannot be combined with template")
    weights = step.child("mix")
    chosen = {step.text("template", PLAIN): 1}
    if step.has("mix"):
        chosen = {name: weights.integer(name, 0, 1, COUNT_MAX) for name in weights.values}
    for name in chosen:
        if name not in templates:
            rule = f"no podTemplate {shown(name)}{did_you_mean(name, templates)}"
            raise step.error("mix" if step.has("mix") else "template", rule)
    if not chosen:
        raise step.error("mix", "must not be empty")
    return tuple((templates[name], weight) for name, weight in chosen.items())


def _pods(step: Fields, templates: Mapping[str, Template]) -> CreatePods:
    """Return what pods and gangs have in common."""
    return CreatePods(
        _count(step),
        _mix(step, templates),
        step.text("namespace", "default"),
        arrivals_of(step),
        is_measured=step.flag("collectMetrics", True),
        stays=step.flag("skipWaitToCompletion"),
        runs_for_ms=duration_ms(step, "runsFor", 0),
    )


def _create_pods(step: Fields, templates: Mapping[str, Template]) -> Step:
    pods = _pods(step, templates)
    return replace(pods, is_distinct=step.flag("distinct"), replaces=step.flag("replace"))


def _create_gangs(step: Fields, templates: Mapping[str, Template]) -> Step:
    size = _count(step, "size")
    return replace(
        _pods(step, templates),
        gang_size=size,
        min_count=step.integer("minCount", size, 1, size),
        timeout_ms=duration_ms(step, "timeout", 300_000),
        topology_key=step.text("topologyKey", ""),
    )


def _delete_pods(step: Fields, _templates: Mapping[str, Template]) -> Step:
    count = step.integer("count", 0, 1, COUNT_MAX)
    return DeletePods(step.text("namespace", "default"), count, arrivals_of(step))


def _create_namespaces(step: Fields, _templates: Mapping[str, Template]) -> Step:
    prefix, labels = step.required_text("prefix"), step.mapping("labels")
    names = [f"{prefix}-{number}" for number in range(_count(step))]
    objects = tuple(
        Namespace(
            uid=f"namespace.{name}",
            name=name,
            labels=tuple(sorted((labels | {NAME_LABEL: name}).items())),
        )
        for name in names
    )
    written = tuple(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        }
        for name in names
    )
    return CreateObjects(objects, written)


def _create_any(step: Fields, _templates: Mapping[str, Template]) -> Step:
    template = step.child("template")
    written = [numbered(template.values, number) for number in range(_count(step))]
    objects = tuple(
        _object(Fields(step.what, template.path, values), template) for values in written
    )
    return CreateObjects(objects, tuple(written))


def _object(document: Fields, template: Fields) -> ClusterObject:
    kind = document.required_text("kind")
    known = ("Namespace", *SPREADING, DEPLOYMENT, *READERS, *WATCHED)
    if kind not in known:
        rule = f"{shown(kind)} is not one of {', '.join(known)}"
        raise template.error("kind", rule + did_you_mean(kind, known))
    found = Object(document)
    if kind == "Namespace":
        return namespace_of(found)
    if kind in READERS:
        return storage_object(found.document)
    if kind in WATCHED:
        return next(device_objects([found], ()))
    return spreader_of(found.document, found.metadata, found.namespace)


def numbered(value: Any, number: int) -> Any:
    """Return the value with this number in place of INDEX in all its texts."""
    if isinstance(value, str):
        return value.replace(INDEX, str(number))
    if isinstance(value, dict):
        return {key: numbered(inner, number) for key, inner in value.items()}
    return [numbered(inner, number) for inner in value] if isinstance(value, list) else value


def _barrier(_step: Fields, _templates: Mapping[str, Template]) -> Step:
    return Barrier()


def _sleep(step: Fields, _templates: Mapping[str, Template]) -> Step:
    step.required_text("duration")
    return Sleep(duration_ms(step, "duration", 0))


_OF_PODS = ("template", "mix", "namespace", "arrival", "collectMetrics", "skipWaitToCompletion")
_READERS: dict[str, tuple[tuple[str, ...], Callable[[Fields, Mapping[str, Template]], Step]]] = {
    "createNodes": (
        ("count", "prefix", "zones", "template", "arrival", "runsFor"),
        _create_nodes,
    ),
    "deleteNodes": (("count", "prefix", "arrival"), _delete_nodes),
    "createPods": (
        ("count", *_OF_PODS, "namespaces", "distinct", "runsFor", "replace"),
        _create_pods,
    ),
    "createGangs": (
        ("count", "size", *_OF_PODS, "runsFor", "minCount", "timeout", "topologyKey"),
        _create_gangs,
    ),
    "deletePods": (("count", "namespace", "arrival"), _delete_pods),
    "createNamespaces": (("count", "prefix", "labels"), _create_namespaces),
    "createAny": (("count", "template"), _create_any),
    "barrier": ((), _barrier),
    "sleep": (("duration",), _sleep),
}
"""By opcode, the fields of a step and what reads it."""
