"""Turns queues of YuniKorn, KAI, Volcano and ElasticQuotas into Queues, and says what has no
counterpart.

Amounts keep their text, but for KAI's, which have units of their own.
"""

from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.queues import QUEUES_VERSION, queue
from shared.model.cluster_objects import Queue
from shared.model.objects import GPU
from shared.model.queues import QUEUE_LABEL, chains, tree_faults
from shared.worlds.documents import name_of, objects_of, read_documents

YUNIKORN_FILE = "queues.yaml"
YUNIKORN_NAMES = {"vcore": "cpu"}
YUNIKORN_PARTITION, YUNIKORN_ROOT = "default", "root"
"""YuniKorn puts the root above queues that have none."""
KAI_UNITS = {"cpu": ("cpu", "m"), "memory": ("memory", "M"), "gpu": (GPU, "")}
"""KAI's resources, with their names and units here: thousandths of cores, and 10^6 bytes."""
KOORDINATOR = "quota.scheduling.koordinator.sh"
KOORDINATOR_GROUP, KOORDINATOR_ROOT = "scheduling.sigs.k8s.io", "koordinator-root-quota"
KOORDINATOR_READ = {f"{KOORDINATOR}/parent", f"{KOORDINATOR}/is-parent"}
VOLCANO_ROOT = "root"

Quantities = dict[str, Any]


class Draft(NamedTuple):
    """A Queue before it is checked; `source` is what it was made of."""

    source: Fields
    name: str
    parent: str
    max: Quantities
    guaranteed: Quantities


class Imported(NamedTuple):
    """Manifests of Queues, those above first, and a line for each thing that was left out or
    changed.
    """

    manifests: list[dict[str, Any]]
    notes: list[str]


def convert(paths: Sequence[Path]) -> Imported:
    """Convert the queues of these files. Other objects in them are passed over. Raises WorldError
    for files that cannot be read, and for queues that are no tree.
    """
    notes: list[str] = []
    drafts = [one for path in paths for one in _drafts(path, notes)]
    known = {one.name for one in drafts}
    if VOLCANO_ROOT not in known:
        drafts = [one._replace(parent="") if one.parent == VOLCANO_ROOT else one for one in drafts]
    if not drafts:
        names = ", ".join(map(name_of, paths))
        raise WorldError(names, "", "holds no queues of YuniKorn, KAI, Volcano or ElasticQuotas")
    made: dict[str, Draft] = {}
    for one in drafts:
        if one.name in made:
            raise WorldError(one.source.what, one.name, "is a duplicate")
        made[one.name] = one
    queues = {name: _checked(one) for name, one in made.items()}
    for name, (field, rule) in sorted(tree_faults(queues.values()).items()):
        raise WorldError(made[name].source.what, f"{name}: {field}", rule)
    tree = chains(queues.values())
    order = sorted(tree, key=lambda name: [one.name for one in reversed(tree[name])])
    return Imported([_manifest(made[name]) for name in order], notes)


def _drafts(path: Path, notes: list[str]) -> Iterator[Draft]:
    for number, document in enumerate(read_documents(path), start=1):
        what = f"{name_of(path)} document {number}"
        if isinstance(document, dict) and "partitions" in document:
            yield from _yunikorn(Fields.root(what, document), notes)
            continue
        for one in objects_of(what, document):
            yield from _of_object(one, notes)


def _of_object(one: Fields, notes: list[str]) -> Iterator[Draft]:
    kind, group = one.text("kind"), one.text("apiVersion").partition("/")[0]
    if kind == "ConfigMap" and YUNIKORN_FILE in one.child("data").values:
        text = one.child("data").lines(YUNIKORN_FILE)
        yield from _yunikorn(_embedded(one, text), notes)
    elif kind == "Queue" and group == "scheduling.run.ai":
        yield _kai(one, notes)
    elif kind == "Queue" and group == "scheduling.volcano.sh":
        yield _volcano(one, notes)
    elif kind == "ElasticQuota":
        yield _elastic_quota(one, notes)


def _embedded(one: Fields, text: str) -> Fields:
    from shared.adapters import bounded_yaml  # only for files within files

    what = f"{one.what} data.{YUNIKORN_FILE}"
    try:
        (value,) = bounded_yaml.load_all(text)
    except ValueError as error:
        raise WorldError(what, "", str(error)) from error
    return Fields.root(what, value)


# ---------------------------------------------------------------------------------- schedulers


def _yunikorn(config: Fields, notes: list[str]) -> Iterator[Draft]:
    """Yield the queues of all partitions. Their names are paths, as pods of YuniKorn name them."""
    for partition in config.children("partitions"):
        name = partition.text("name", YUNIKORN_PARTITION)
        if name != YUNIKORN_PARTITION:
            notes.append(f"{partition.what}: partition {name}: its queues count for all nodes")
        _note(partition, ("name", "queues"), f"partition {name}", notes)
        tops = list(partition.children("queues"))
        is_rooted = [one.text("name").lower() for one in tops] == [YUNIKORN_ROOT]
        if not is_rooted:
            yield Draft(partition, YUNIKORN_ROOT, "", {}, {})
        for one in tops:
            yield from _yunikorn_queue(one, "" if is_rooted else YUNIKORN_ROOT, notes)


def _yunikorn_queue(one: Fields, above: str, notes: list[str]) -> Iterator[Draft]:
    written = one.required_text("name")
    if not _object_name(written).strip("-"):
        raise one.error("name", "must have a letter or digit of ASCII")
    name = f"{above}.{_object_name(written)}" if above else _object_name(written)
    if not name.endswith(written):
        notes.append(f"{one.what}: queue {written} below {above or 'no queue'} is named {name}")
    _note(one, ("name", "parent", "queues", "resources"), name, notes)
    resources = one.child("resources")
    resources.only(("guaranteed", "max"))
    most = _quantities(resources, "max", YUNIKORN_NAMES)
    guaranteed = _quantities(resources, "guaranteed", YUNIKORN_NAMES)
    yield Draft(one, name, above, most, guaranteed)
    for child in one.children("queues"):
        yield from _yunikorn_queue(child, name, notes)


def _kai(one: Fields, notes: list[str]) -> Draft:
    """Return a Queue of KAI: its quota is guaranteed, its limit the max. -1 is no limit."""
    name, spec = one.child("metadata").required_text("name"), one.child("spec")
    most: Quantities = {}
    guaranteed: Quantities = {}
    _note(spec, ("parentQueue", "resources", "displayName"), name, notes)
    resources = spec.child("resources")
    resources.only(KAI_UNITS)
    for kind in resources.values:
        amount, (resource, unit) = resources.child(kind), KAI_UNITS[kind]
        _note(amount, ("quota", "limit"), name, notes)
        for key, into in (("quota", guaranteed), ("limit", most)):
            value = amount.number(key) if amount.has(key) else -1
            if not isfinite(value):
                raise amount.error(key, "must be finite")
            if value >= 0:
                into[resource] = f"{int(value) if value == int(value) else value}{unit}"
            elif value < 0 and key == "quota" and amount.has(key):
                notes.append(f"{one.what}: {name}: {amount.at(key)}: a guarantee must have a limit")
    return Draft(one, name, spec.text("parentQueue"), most, guaranteed)


def _volcano(one: Fields, notes: list[str]) -> Draft:
    """Return a Queue of Volcano: `deserved` is guaranteed, or else `guarantee`, of each resource.
    Without a parent it is below Volcano's root, which may be missing in what is read.
    """
    name, spec = one.child("metadata").required_text("name"), one.child("spec")
    _note(spec, ("parent", "capability", "deserved", "guarantee"), name, notes)
    guarantee = spec.child("guarantee")
    deserved = _quantities(guarantee, "resource") | _quantities(spec, "deserved")
    if guarantee.has("resource"):
        field = guarantee.at("resource")
        notes.append(f"{one.what}: {name}: {field}: others may borrow what it reserves")
    parent = "" if name == VOLCANO_ROOT else spec.text("parent", VOLCANO_ROOT)
    return Draft(one, name, parent, _quantities(spec, "capability"), deserved)


def _elastic_quota(one: Fields, notes: list[str]) -> Draft:
    """Return an ElasticQuota: one of a namespace, or one of Koordinator, which pods name."""
    meta, spec = one.child("metadata"), one.child("spec")
    labels = meta.mapping("labels")
    _note(spec, ("min", "max"), meta.required_text("name"), notes)
    name, parent = meta.required_text("name"), labels.get(f"{KOORDINATOR}/parent", "")
    if one.text("apiVersion").partition("/")[0] != KOORDINATOR_GROUP:
        name = meta.text("namespace", "default")
        notes.append(f"{one.what}: {name}: needs the label {QUEUE_LABEL}={name} on its namespace")
    settings = {*labels, *meta.notes("annotations")} - KOORDINATOR_READ
    lost = sorted(key for key in settings if key.startswith(f"{KOORDINATOR}/"))
    notes += [f"{one.what}: {name}: {key} has no counterpart" for key in lost]
    if parent == KOORDINATOR_ROOT:
        parent = ""
    return Draft(one, name, parent, _quantities(spec, "max"), _quantities(spec, "min"))


# ---------------------------------------------------------------------------------- parts


def _note(fields: Fields, known: Sequence[str], name: str, notes: list[str]) -> None:
    """Note the fields that say something and are not among the known ones."""
    for key, value in fields.values.items():
        if key not in known and value not in (None, "", [], {}):
            notes.append(f"{fields.what}: {name}: {fields.at(key)} has no counterpart")


def _quantities(fields: Fields, key: str, names: dict[str, str] | None = None) -> Quantities:
    return {
        (names or {}).get(name, name): value for name, value in fields.child(key).values.items()
    }


def _object_name(name: str) -> str:
    """Return a name that an object may have."""
    return "".join(one if one.isalnum() and one.isascii() else "-" for one in name.lower())


def _checked(one: Draft) -> Queue:
    """Return the Queue. Raises WorldError with the manifest's field."""
    manifest = _manifest(one)
    manifest["metadata"]["uid"] = one.name
    try:
        return queue(Fields.root(one.source.what, manifest))
    except WorldError as error:
        raise WorldError(f"{one.source.what}: {one.name}", "", str(error)) from error


def _manifest(one: Draft) -> dict[str, Any]:
    spec: dict[str, Any] = {"parent": one.parent} if one.parent else {}
    spec |= {key: value for key in ("max", "guaranteed") if (value := getattr(one, key))}
    return {
        "apiVersion": QUEUES_VERSION,
        "kind": "Queue",
        "metadata": {"name": one.name},
        "spec": spec,
    }
