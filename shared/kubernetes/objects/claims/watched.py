"""Reads classes, slices, taint rules and claims with their identity, as they are watched. A claim
that Muster does not understand is kept with its devices, so that no other claim gets them.
"""

from shared.kubernetes.objects.claims.claims import device_class, resource_claim
from shared.kubernetes.objects.claims.devices import resource_slice, taint_rule
from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.volume_objects import identity
from shared.model.claims import Allocation, ClaimSpec, DeviceResult, ResourceClaim
from shared.model.cluster_objects import ClaimObject, ClassObject, SliceObject, TaintRuleObject

CLASS, SLICE, CLAIM = "DeviceClass", "ResourceSlice", "ResourceClaim"
TAINT_RULE = "DeviceTaintRule"


def watched_class(document: Fields) -> ClassObject:
    """Return a DeviceClass. Raises WorldError."""
    return ClassObject(**identity(document), value=device_class(document))


def watched_slice(document: Fields) -> SliceObject:
    """Return a ResourceSlice. Raises WorldError."""
    return SliceObject(**identity(document), value=resource_slice(document))


def watched_taint_rule(document: Fields) -> TaintRuleObject:
    """Return a DeviceTaintRule. Raises WorldError."""
    return TaintRuleObject(**identity(document), value=taint_rule(document))


def watched_claim(document: Fields) -> ClaimObject:
    """Return a ResourceClaim; one that cannot be used has a problem. Raises WorldError if not even
    its devices can be read.
    """
    names, problem = identity(document), ""
    try:
        value = resource_claim(document, names["namespace"])
    except WorldError as error:
        problem = f"{error.rejection.field}: {error.rejection.rule}"
        value = _devices_only(document, names["namespace"])
    users = tuple(one.text("uid") for one in document.child("status").children("reservedFor"))
    version = document.child("metadata").text("resourceVersion")
    revision = int(version) if version.isdigit() else 0
    return ClaimObject(**names, value=value, revision=revision, reserved_for=users, problem=problem)


def _devices_only(document: Fields, namespace: str) -> ResourceClaim:
    meta, status = document.child("metadata"), document.child("status")
    results = tuple(
        DeviceResult(
            one.text("request"),
            one.required_text("driver"),
            one.required_text("pool"),
            one.required_text("device"),
            one.flag("adminAccess"),
        )
        for one in status.child("allocation").child("devices").children("results")
    )
    return ResourceClaim(
        namespace,
        meta.required_text("name"),
        meta.text("uid"),
        ClaimSpec(),
        is_deleted=meta.has("deletionTimestamp"),
        allocation=Allocation(results) if status.has("allocation") else None,
    )
