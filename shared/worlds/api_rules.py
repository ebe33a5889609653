"""Rules that an API server checks when it stores an object, and the annotations of Muster.

Objects of a world pass no API server. What breaks these rules would do something else than it says,
or nothing. All functions raise WorldError.
"""

from collections.abc import Iterator

from shared.kubernetes.objects import affinity
from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.groups.pod_groups import (
    BELOW_MINIMUM,
    BELOW_MINIMUM_GRACE,
    GANG_TIMEOUT,
    MINIMUM_RUN_TIME,
    REPLACEMENT_HOLD,
)
from shared.kubernetes.objects.groups.provisioning import CLASS_NAME
from shared.kubernetes.objects.labels import is_label_name
from shared.kubernetes.objects.requests import GPU_MILLI, HUGE_PAGES
from shared.model.objects import CPU, GPU, MEMORY, PODS
from shared.model.release import COMPOSITE_POD_GROUP
from shared.model.text import did_you_mean

ARRIVES_AFTER = "muster.io/arrives-after"
RUNS_FOR = "muster.io/runs-for"
PREFIX = "muster.io/"
GROUPS = ("Workload", "PodGroup")
OF_GROUPS = (
    *(GANG_TIMEOUT, CLASS_NAME, BELOW_MINIMUM, BELOW_MINIMUM_GRACE),
    *(MINIMUM_RUN_TIME, REPLACEMENT_HOLD),
)
OF_PODS = (ARRIVES_AFTER, RUNS_FOR)
ANNOTATIONS = (*OF_PODS, *OF_GROUPS)

SELECTING = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
"""Kinds whose selector is required, and does not default to the template's labels."""
STORAGE = "ephemeral-storage"
OF_CONTAINERS = (CPU, MEMORY, STORAGE)
OF_NODES = (*OF_CONTAINERS, PODS, "storage")
ATTACHABLE = "attachable-volumes-"


def check_annotations(metadata: Fields, kind: str, makes_pods: bool) -> None:
    """Check that an object has no annotation of Muster that its kind does not use."""
    annotations, known = metadata.child("annotations"), OF_PODS if makes_pods else ()
    for name in _of_muster(annotations):
        is_timeout = name == GANG_TIMEOUT and kind == COMPOSITE_POD_GROUP
        if name in OF_GROUPS and kind not in GROUPS and not is_timeout:
            raise annotations.error(name, f"belongs on a {' or '.join(GROUPS)}")
        if name in OF_PODS and name not in known:
            rule = f"belongs on a pod or on the object that makes it, not on a {kind}"
            raise annotations.error(name, rule)


def check_template(spec: Fields, kind: str) -> None:
    """Check a controller's selector against its template, which has no annotations of Muster."""
    metadata = spec.child("template").child("metadata")
    annotations = metadata.child("annotations")
    for name in _of_muster(annotations):
        if name in OF_GROUPS:
            raise annotations.error(name, f"belongs on a {' or '.join(GROUPS)}")
        raise annotations.error(name, f"belongs in metadata.annotations of the {kind} itself")
    if kind in SELECTING and not spec.has("selector"):
        raise spec.error("selector", "is required")
    if not spec.has("selector"):
        return
    is_plain = kind == "ReplicationController"
    pairs = {"matchLabels": spec.mapping("selector")} if is_plain else spec.child("selector").values
    wanted, terms = affinity.label_selector(Fields(spec.what, spec.at("selector"), pairs))
    if not wanted and not terms:
        raise spec.error("selector", "must not be empty")
    labels = metadata.mapping("labels")
    if not affinity.selects(labels, wanted, terms):
        raise metadata.error("labels", f"{shown(labels)} does not match {spec.at('selector')}")


def check_requests(spec: Fields) -> None:
    """Check the names of a pod's resources."""
    _check_names(spec.child("overhead"), OF_CONTAINERS, HUGE_PAGES)
    for group in ("initContainers", "containers"):
        for container in spec.children(group):
            resources = container.child("resources")
            for key in ("requests", "limits"):
                _check_names(resources.child(key), OF_CONTAINERS, HUGE_PAGES)


def check_node(status: Fields) -> None:
    """Check the names of a node's resources. An API server takes any, but no pod could ask for one
    without a domain.
    """
    for key in ("capacity", "allocatable"):
        _check_names(status.child(key), OF_NODES, HUGE_PAGES, ATTACHABLE)


def _of_muster(annotations: Fields) -> Iterator[str]:
    """Yield the known annotations of Muster."""
    for name in annotations.values:
        if name.startswith(PREFIX):
            if name not in ANNOTATIONS:
                rule = f"is an unknown annotation{did_you_mean(name, ANNOTATIONS)}"
                raise annotations.error(name, rule)
            yield name


def _check_names(amounts: Fields, known: tuple[str, ...], *prefixes: str) -> None:
    for name in amounts.values:
        is_qualified = "/" in name and is_label_name(name)
        if not is_qualified and name not in known and not name.startswith(prefixes):
            words = f"{', '.join(known)} nor {HUGE_PAGES}SIZE"
            rule = f"is neither {words}, nor has it a domain, as {GPU} has"
            raise amounts.error(name, rule + did_you_mean(name, (*known, GPU, GPU_MILLI)))
