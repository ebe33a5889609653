"""The pods that a Pod or a controller object stands for, and their names.

Controllers do not run in a simulated cluster: their pods exist as if the controller had made them
once, named after the owner with a number (for a DaemonSet: with the node). An evicted pod is not
made again.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from shared.extenders.values import named
from shared.kubernetes.objects.cluster_objects import COUNT_MAX
from shared.kubernetes.objects.default_spread import controller_of, revision_name
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.groups.other_schedulers import groups_named
from shared.kubernetes.objects.pod_templates import (
    PriorityClass,
    Template,
    duration_ms,
    template_of,
)
from shared.kubernetes.objects.pod_volumes import has_own_claims, volumes_of_pod
from shared.model.objects import Node
from shared.model.pod_rules.pod_claims import has_templates, of_pod
from shared.model.release import DEFAULT_RELEASE, Release
from shared.scheduling.api.custom.plugin import metadata_read, shown
from shared.worlds.api_rules import ARRIVES_AFTER, RUNS_FOR, check_requests, check_template
from shared.worlds.arrivals import Pod
from shared.worlds.claim_templates import template_names, uses_of, without_replaced
from shared.worlds.daemon_sets import DaemonNodes

SPEC_FIELDS = {
    "Deployment": {
        *("replicas", "selector", "template", "minReadySeconds", "paused"),
        *("progressDeadlineSeconds", "revisionHistoryLimit", "strategy"),
    },
    "ReplicaSet": {"replicas", "selector", "template", "minReadySeconds"},
    "ReplicationController": {"replicas", "selector", "template", "minReadySeconds"},
    "StatefulSet": {
        *("replicas", "selector", "template", "serviceName", "minReadySeconds", "ordinals"),
        *("persistentVolumeClaimRetentionPolicy", "podManagementPolicy"),
        *("revisionHistoryLimit", "updateStrategy", "volumeClaimTemplates"),
    },
    "DaemonSet": {
        *("selector", "template", "minReadySeconds", "revisionHistoryLimit", "updateStrategy"),
    },
    "Job": {
        *("parallelism", "completions", "template", "activeDeadlineSeconds", "backoffLimit"),
        *("backoffLimitPerIndex", "completionMode", "managedBy", "manualSelector"),
        *("maxFailedIndexes", "podFailurePolicy", "podReplacementPolicy", "selector"),
        *("successPolicy", "suspend", "ttlSecondsAfterFinished"),
    },
}
POD_KINDS = ("Pod", *SPEC_FIELDS)
METADATA_FIELDS = {
    *("name", "namespace", "labels", "annotations", "uid", "generateName", "creationTimestamp"),
    *("deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generation"),
    *("managedFields", "ownerReferences", "resourceVersion", "selfLink"),
}


class Expansion:
    """Makes pods of objects; holds what a cluster would look up."""

    def __init__(
        self,
        classes: Mapping[str, PriorityClass],
        default: PriorityClass,
        nodes: Sequence[Node] = (),
        release: Release = DEFAULT_RELEASE,
    ) -> None:
        """`default` is the priority of pods without a class; `nodes` are for DaemonSets. `release`:
        the kube-scheduler that counts the requests of resized pods.
        """
        self._classes, self._default, self._release = classes, default, release
        self._daemon_nodes = DaemonNodes(nodes)

    def pods(self, document: Fields, metadata: Fields, namespace: str) -> Iterator[Pod]:
        """Yield the object's pods in order."""
        kind, spec = document.text("kind"), document.child("spec")
        document.only(("apiVersion", "kind", "metadata", "spec", "status"))
        name = metadata.required_text("name")
        annotations = metadata.child("annotations")
        at_ms = duration_ms(annotations, ARRIVES_AFTER, 0)
        lifetime_ms = duration_ms(annotations, RUNS_FOR, 0)
        if kind == "Pod":
            status = document.child("status") if spec.has("nodeName") else None
            template = self._template(metadata, spec, namespace, status)
            one = _pod(template, name, namespace, at_ms, lifetime_ms, metadata.text("uid"))
            leaves, owner = metadata.has("deletionTimestamp"), controller_of(metadata)
            started_ms = document.child("status").time_ms("startTime")
            start_ms = started_ms if status is not None else 0
            if leaves or owner or start_ms:
                changes = {"terminating": leaves, "owner": owner, "start_ms": start_ms}
                one = structs.replace(one, **changes)
            yield one
            return
        spec.only(SPEC_FIELDS[kind])
        if not spec.has("template"):
            raise spec.error("template", "is required")
        pod = spec.child("template")
        pod.only(("metadata", "spec"))
        inner = pod.child("metadata")
        inner.only(METADATA_FIELDS)
        check_template(spec, kind)
        claims = template_names(spec)
        inside = without_replaced(pod.child("spec"), claims)
        template = self._template(inner, inside, namespace)
        if kind == "DaemonSet":
            on_host = inside.flag("hostNetwork")
            for node, node_spec in self._daemon_nodes.specs(template.spec, on_host):
                if template.node in ("", node):
                    there = structs.replace(template, spec=node_spec)
                    yield _pod(there, f"{name}-{node}", namespace, at_ms, lifetime_ms)
            return
        owner = _owner(kind, name)
        for pod_name in pod_names(kind, name, spec):
            one = _pod(template, pod_name, namespace, at_ms, lifetime_ms)
            if claims:
                volumes = (*uses_of(claims, pod_name), *one.spec.volumes)
                one = structs.replace(one, spec=structs.replace(one.spec, volumes=volumes))
            yield structs.replace(one, owner=owner) if owner else one

    def _template(
        self, metadata: Fields, spec: Fields, namespace: str, status: Fields | None = None
    ) -> Template:
        check_requests(spec)
        labels, annotations = metadata.mapping("labels"), metadata.notes("annotations")
        seen = shown(metadata_read(), namespace, labels, annotations)
        given = self._classes, self._default, seen, status, self._release
        template = template_of(metadata, spec, *given)
        other = next(groups_named(labels, annotations), None)
        if other is None or template.ref is not None:
            return template
        return structs.replace(
            template, ref=other, spec=structs.replace(template.spec, part=other.part)
        )


def _owner(kind: str, name: str) -> str:
    """Return the owner of the pods; for a Deployment, its ReplicaSet."""
    if kind == "Job":
        return ""
    return f"ReplicaSet/{revision_name(name)}" if kind == "Deployment" else f"{kind}/{name}"


def pod_names(kind: str, name: str, spec: Fields) -> list[str]:
    """Return the names of a controller's pods."""
    return [f"{name}-{number}" for number in range(_count(kind, spec))]


def _count(kind: str, spec: Fields) -> int:
    if kind != "Job":
        return spec.integer("replicas", 1, 0, COUNT_MAX)
    if spec.flag("suspend"):
        return 0
    parallelism = spec.integer("parallelism", 1, 0, COUNT_MAX)
    return min(parallelism, spec.integer("completions", parallelism, 0, COUNT_MAX))


def _pod(
    template: Template, name: str, namespace: str, at_ms: int, lifetime_ms: int, uid: str = ""
) -> Pod:
    ref, spec = template.ref, template.spec
    if has_own_claims(spec.volumes):
        owner = uid or f"{namespace}.{name}"
        spec = structs.replace(spec, volumes=volumes_of_pod(spec.volumes, name, owner))
    if has_templates(spec.claims):
        owner = uid or f"{namespace}.{name}"
        made = {one.name: f"{name}-{one.name}" for one in spec.claims if one.template}
        spec = structs.replace(spec, claims=of_pod(spec.claims, made, name, owner))
    spec = named(spec, namespace, name)
    return Pod(
        name=name,
        uid=uid,
        spec=spec,
        labels=template.labels,
        namespace=namespace,
        gang=ref.key(namespace) if ref else "",
        gang_count=ref.min_count if ref else 0,
        gated=template.gated,
        node=template.node,
        at_ms=at_ms,
        lifetime_ms=lifetime_ms,
    )
