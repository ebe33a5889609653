"""Resource claims of a case: which devices its pods would get (DynamicResources)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from muster.explain.case_answer import ERROR, UNRESOLVABLE, NodeStatus, failed
from shared.kubernetes.objects.claims.claims import device_class, pod_claims, resource_claim
from shared.kubernetes.objects.claims.devices import resource_slice, taint_rule
from shared.kubernetes.objects.fields import Fields
from shared.model.claims import ResourceClaim
from shared.model.profile import DYNAMIC_RESOURCES
from shared.scheduling.claims.allocator import AllocationError
from shared.scheduling.claims.pod_claims import ClaimFacts, ClaimingPod, Fit, NotReady
from shared.scheduling.claims.reach import NodeView

GROUP_VERSION = "resource.k8s.io/v1"


def without_claims(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the case with pods that use no claims; everything else is as it was."""
    found = dict(case)
    for key in ("objects", "pods"):
        if isinstance(found.get(key), list):
            found[key] = [_without_claims(one) if has_claims(one) else one for one in found[key]]
    return found


def has_claims(one: Any) -> bool:
    """Return whether an object is a pod that uses resource claims."""
    spec = one.get("spec") if isinstance(one, dict) and one.get("kind") == "Pod" else None
    return isinstance(spec, dict) and bool(spec.get("resourceClaims"))


def _without_claims(pod: Mapping[str, Any]) -> dict[str, Any]:
    spec = {key: value for key, value in pod["spec"].items() if key != "resourceClaims"}
    for key in ("containers", "initContainers"):
        if isinstance(spec.get(key), list):
            spec[key] = [_container(one) for one in spec[key]]
    return {**pod, "spec": spec}


def _container(given: Any) -> Any:
    resources = given.get("resources") if isinstance(given, dict) else None
    if not isinstance(resources, dict):
        return given
    rest = {key: value for key, value in resources.items() if key != "claims"}
    return {**given, "resources": rest}


class CaseClaims:
    """The claims, classes and slices of a case; they are read when a pod needs them."""

    def __init__(self, what: str, case: Mapping[str, Any], version: str) -> None:
        """`what` names the case in messages, `version` the release of kube-scheduler."""
        self._version = version
        self._document = Fields.root(what, dict(case))

    @cached_property
    def facts(self) -> ClaimFacts:
        """Return what the case holds. Raises WorldError."""
        return ClaimFacts(
            [device_class(one) for one in self._read("DeviceClass")],
            [resource_slice(one) for one in self._read("ResourceSlice")],
            [resource_claim(one, _namespace(one)) for one in self._read("ResourceClaim")],
            self._version,
            [taint_rule(one) for one in self._read("DeviceTaintRule")],
        )

    def _read(self, kind: str) -> Iterator[Fields]:
        seen: set[tuple[str, str]] = set()
        for one in self._document.children("objects"):
            if one.text("kind") != kind:
                continue
            metadata = one.child("metadata")
            name = metadata.required_text("name")
            read = Fields(f"{one.what}: {one.path}: {kind} {name}", "", one.values)
            if read.text("apiVersion") != GROUP_VERSION:
                raise read.error("apiVersion", f"must be {GROUP_VERSION}")
            key = metadata.text("namespace"), name
            if key in seen:
                raise read.error("metadata.name", "is a duplicate")
            seen.add(key)
            yield read

    def used_by(self, number: int, pod: Mapping[str, Any]) -> ClaimingPod | None:
        """Return the pod with this number, counted from 0, if it uses claims. Raises WorldError."""
        if not has_claims(pod):
            return None
        read = Fields(f"{self._document.what}: pods[{number}]", "", dict(pod))
        metadata = read.child("metadata")
        namespace, name = _namespace(read), metadata.required_text("name")
        read.what += f": Pod {namespace}/{name}"
        uses = tuple(pod_claims(read.child("spec"), read.child("status")))
        return ClaimingPod(namespace, name, metadata.text("uid") or f"Pod {name}", uses)

    def not_ready(self, pod: ClaimingPod) -> str:
        """Return PreEnqueue's message about a pod; empty if its claims are there."""
        try:
            self.facts.resolve(pod)
        except NotReady as error:
            return str(error)
        return ""

    def needed(self, pod: ClaimingPod) -> list[ResourceClaim]:
        """Return the claims that the pod needs. Raises NotReady with PreFilter's message."""
        claims = self.facts.resolve(pod)
        self.facts.check_classes(claims)
        return claims

    def fits(
        self, claims: Sequence[ResourceClaim], nodes: Iterable[NodeView]
    ) -> tuple[dict[str, Fit], dict[str, NodeStatus]]:
        """Return by node how claims fit, and what Filter says where they do not. An error would end
        kube-scheduler's attempt on all nodes.
        """
        found, refused = {}, {}
        for node in nodes:
            try:
                fit = self.facts.fit(claims, node)
            except AllocationError as error:
                refused[node.name] = failed(ERROR, str(error), DYNAMIC_RESOURCES)
                continue
            if fit.reason:
                refused[node.name] = failed(UNRESOLVABLE, fit.reason, DYNAMIC_RESOURCES)
            else:
                found[node.name] = fit
        return found, refused


def _namespace(one: Fields) -> str:
    return one.child("metadata").text("namespace") or "default"
