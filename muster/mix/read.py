"""Reads a mix from YAML or JSON (docs/reference/mixes.md). All functions raise WorldError, which
names the file, the field and the rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.flood.read import COUNT_MAX, arrivals_of, node_made, only_document, templates_of
from muster.flood.workload import Arrivals, Template
from muster.mix.mix import Durations, Failures, Inference, Jobs, Mix, Nodes, Shape, Trace
from shared.kubernetes.objects.errors import WorldError, shown
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.labels import HOSTNAME_LABEL, ZONE_LABEL
from shared.kubernetes.objects.pod_templates import duration_ms
from shared.model.text import did_you_mean
from shared.worlds.settings import Choice, load_world

SIGMA_MAX = 5.0
REPLICAS_MAX = 100_000
TRACES = ("openb", "dlrm")
SHAPES: dict[Shape, tuple[str, ...]] = {
    "constant": ("mean",),
    "exponential": ("mean",),
    "lognormal": ("mean", "sigma"),
    "uniform": ("min", "max"),
}


def read_mix(path: Path, seed: int | None = None) -> Mix:
    """Return the mix of a file; `seed` replaces its own."""
    root = only_document(path)
    lists = ("nodes", "training", "batch", "inference", "traces", "failures")
    root.only(("name", "seed", "horizon", "podTemplates", *lists))
    own = root.integer("seed", 1, 0, 1 << 62)
    nodes = tuple(_nodes(fields) for fields in root.children("nodes"))
    traces = tuple(_trace(fields) for fields in root.children("traces"))
    if not (nodes or traces):
        raise root.error("nodes", "must have an entry, unless there are traces")
    levels = {key for one in nodes for key, _ in one.domains}
    reading = _Reading(dict(templates_of(root)), levels | {ZONE_LABEL} if traces else levels)
    jobs = [reading.jobs(fields, is_gang=True) for fields in root.children("training")]
    jobs += [reading.jobs(fields, is_gang=False) for fields in root.children("batch")]
    inference = tuple(reading.inference(fields) for fields in root.children("inference"))
    if not (jobs or inference or traces):
        raise root.error("training", "is required, unless there is another class")
    _unique(root, nodes, [*jobs, *inference, *traces])
    return Mix(
        root.text("name") or path.stem,
        own if seed is None else seed,
        _needed_ms(root, "horizon"),
        nodes,
        tuple(jobs),
        inference,
        tuple(reading.failures(fields) for fields in root.children("failures")),
        traces,
    )


def _trace(fields: Fields) -> Trace:
    fields.only(("name", "world"))
    name, word = fields.required_text("name"), fields.required_text("world")
    if word.partition(":")[0] not in TRACES:
        rule = f"{shown(word)} is not {' or '.join(f'{one}:...' for one in TRACES)}"
        raise fields.error("world", rule)
    try:
        world = load_world([word], Choice(plain=word.startswith("openb:"))).world
    except WorldError as error:
        raise fields.error("world", str(error)) from error
    if not any(one.at_ms for one in world.arrivals):
        raise fields.error("world", "has no times: add speed=1, or another speed")
    return Trace(name, world)


def _unique(
    root: Fields, nodes: tuple[Nodes, ...], classes: list[Jobs | Inference | Trace]
) -> None:
    prefixes, names = [one.prefix for one in nodes], [one.name for one in classes]
    traced = [node.name for one in classes if isinstance(one, Trace) for node in one.world.nodes]
    if len(set(traced)) < len(traced):
        raise root.error("traces", "two of them have nodes of the same name")
    for key, found in (("nodes", prefixes), ("training, batch, inference and traces", names)):
        for place, name in enumerate(found):
            if name in found[:place]:
                raise root.error(key, f"{shown(name)} is there twice")


def _nodes(fields: Fields) -> Nodes:
    fields.only(("count", "prefix", "template", "domains"))
    prefix, count = fields.text("prefix", "node"), _count(fields, "count")
    domains = fields.child("domains")
    sizes = {key: domains.integer(key, 1, 1, COUNT_MAX) for key in domains.values}
    broader, above = "", count
    for key, size in sizes.items():
        if size > above:
            within = f"the {above} of {broader}" if broader else f"the count of {above}"
            raise domains.error(key, f"{size} nodes are more than {within}")
        broader, above = key, size
    return Nodes(prefix, count, node_made(fields, prefix), tuple(sizes.items()))


@dataclass(frozen=True)
class _Reading:
    """What classes may name: templates of pods, and labels of domains."""

    templates: Mapping[str, Template]
    levels: set[str]

    def jobs(self, fields: Fields, is_gang: bool) -> Jobs:
        own = ("topologyKey",) if is_gang else ()
        fields.only(("name", "template", "arrival", "size", "duration", *own))
        topology_key = fields.text("topologyKey")
        if topology_key and topology_key not in self.levels:
            raise self._no_level(fields, "topologyKey", topology_key)
        return Jobs(
            fields.required_text("name"),
            self._template(fields),
            _arrivals(fields),
            _sizes(fields),
            _durations(fields, "duration"),
            is_gang,
            topology_key,
        )

    def inference(self, fields: Fields) -> Inference:
        fields.only(("name", "template", "count", "replicas"))
        hours = fields.values.get("replicas")
        if not isinstance(hours, list) or not hours:
            raise fields.error("replicas", "must be a list with the number of pods in each hour")
        numbered = Fields(
            fields.what,
            fields.path,
            {f"replicas[{hour}]": pods for hour, pods in enumerate(hours)},
        )
        replicas = tuple(numbered.integer(key, 0, 0, REPLICAS_MAX) for key in numbered.values)
        name, count = fields.required_text("name"), fields.integer("count", 1, 1, COUNT_MAX)
        return Inference(name, self._template(fields), count, replicas)

    def failures(self, fields: Fields) -> Failures:
        fields.only(("of", "meanTimeBetween", "repair"))
        domain = fields.text("of", HOSTNAME_LABEL)
        if domain != HOSTNAME_LABEL and domain not in self.levels:
            raise self._no_level(fields, "of", domain)
        mean_ms = _needed_ms(fields, "meanTimeBetween")
        return Failures(domain, mean_ms, _durations(fields, "repair"))

    def _no_level(self, fields: Fields, key: str, value: str) -> Exception:
        rule = f"no nodes have the domains {shown(value)}{did_you_mean(value, self.levels)}"
        return fields.error(key, rule)

    def _template(self, fields: Fields) -> Template:
        name = fields.text("template", "plain")
        if name not in self.templates:
            rule = f"no podTemplate {shown(name)}{did_you_mean(name, self.templates)}"
            raise fields.error("template", rule)
        found = self.templates[name]
        if found.is_numbered:
            raise fields.error("template", f"{shown(name)} has a number in it: pods are equal here")
        return found


def _count(fields: Fields, key: str) -> int:
    if not fields.has(key):
        raise fields.error(key, "is required")
    return fields.integer(key, 1, 1, COUNT_MAX)


def _arrivals(fields: Fields) -> Arrivals:
    """Return when jobs come: as in floods, with `perHour` in place of `perSecond`."""
    if not fields.has("arrival"):
        raise fields.error("arrival", "is required")
    values = dict(fields.child("arrival").values)
    per_hour = fields.child("arrival").number("perHour")
    if "perHour" in values:
        if not 0 < per_hour <= COUNT_MAX:
            raise fields.child("arrival").error(
                "perHour", f"must be more than 0 and at most {COUNT_MAX}"
            )
        del values["perHour"]
        values["perSecond"] = per_hour / 3600
    found = arrivals_of(Fields(fields.what, fields.path, {"arrival": values}))
    if found.process == "burst" and not found.size:
        raise fields.child("arrival").error("size", "is required: how many come every so often")
    return found


def _sizes(fields: Fields) -> tuple[tuple[int, int], ...]:
    """Return sizes with their weights: `size: 8`, or `size: {8: 3, 64: 1}`."""
    if not isinstance(fields.values.get("size"), dict):
        return ((_count(fields, "size"), 1),)
    written: dict[Any, Any] = fields.values["size"]
    weights = Fields(fields.what, fields.at("size"), {str(k): v for k, v in written.items()})
    if not written:
        raise fields.error("size", "must not be empty")
    found = []
    for key in weights.values:
        if not key.isascii() or not key.isdigit() or not 1 <= int(key[:9]) <= REPLICAS_MAX:
            raise weights.error(key, f"is not a number of pods within 1..{REPLICAS_MAX}")
        found.append((int(key), weights.integer(key, 1, 1, COUNT_MAX)))
    return tuple(found)


def _needed_ms(fields: Fields, key: str) -> int:
    if not fields.has(key):
        raise fields.error(key, "is required")
    found = duration_ms(fields, key, 0)
    if not found:
        raise fields.error(key, "must be more than 0")
    return found


def _durations(fields: Fields, key: str) -> Durations:
    """Return a distribution: `duration: 2h`, or an object with a shape."""
    if not isinstance(fields.values.get(key), dict):
        return Durations("constant", _needed_ms(fields, key))
    inner = fields.child(key)
    named = inner.one_of("shape", tuple(SHAPES), "exponential")
    shape: Shape = next(one for one in SHAPES if one == named)
    inner.only(("shape", *SHAPES[shape]))
    if shape == "uniform":
        least_ms, most_ms = duration_ms(inner, "min", 0), _needed_ms(inner, "max")
        if least_ms > most_ms:
            raise inner.error("min", "must be at most max")
        return Durations(shape, least_ms=least_ms, most_ms=most_ms)
    mean_ms, sigma = _needed_ms(inner, "mean"), inner.number("sigma")
    if shape == "lognormal" and not 0 < sigma <= SIGMA_MAX:
        raise inner.error("sigma", f"must be more than 0 and at most {SIGMA_MAX:g}")
    return Durations(shape, mean_ms, sigma)
