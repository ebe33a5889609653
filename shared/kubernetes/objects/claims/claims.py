"""Reads DeviceClasses, ResourceClaims and their templates, and pods' use of them
(api/resource/v1/types.go).
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, cast

from shared.kubernetes.objects import affinity
from shared.kubernetes.objects.claims.names import amount, full_name, only
from shared.kubernetes.objects.fields import Fields
from shared.model.claims import (
    ALTERNATIVES_MAX,
    RESULTS_MAX,
    AllocatedConfig,
    Allocation,
    Amounts,
    ClaimSpec,
    ClaimTemplate,
    Constraint,
    DeviceClass,
    DeviceConfig,
    DeviceResult,
    DeviceToleration,
    Request,
    ResourceClaim,
    Wanted,
)
from shared.model.pod_rules.pod_claims import PodClaim
from shared.scheduling.claims.cel.compiler import Selector
from shared.scheduling.claims.cel.errors import SelectorError

LIST_MAX, TOLERATIONS_MAX = 32, 16
SELECTORS_CACHED = 512  # of up to 10 KiB each
COUNT_MAX = (1 << 63) - 1
SECONDS_MIN, SECONDS_MAX = -(1 << 63), (1 << 63) - 1
WANTED_FIELDS = (
    *("deviceClassName", "selectors", "allocationMode", "count", "tolerations"),
    "capacity",
)
LATER = ("derivedAttributes",)
BOUND_LATER = ("bindingConditions", "bindingFailureConditions")


def device_class(document: Fields) -> DeviceClass:
    """Return a DeviceClass. Raises WorldError."""
    spec = document.child("spec")
    spec.only(("selectors", "config", "extendedResourceName"))
    return DeviceClass(
        document.child("metadata").required_text("name"),
        selectors(spec),
        tuple(_config(one) for one in spec.children("config")),
    )


def claim_template(document: Fields, namespace: str) -> ClaimTemplate:
    """Return a ResourceClaimTemplate. Raises WorldError."""
    spec = document.child("spec")
    spec.only(("metadata", "spec"))
    name = document.child("metadata").required_text("name")
    return ClaimTemplate(namespace, name, claim_spec(spec.child("spec")))


def resource_claim(document: Fields, namespace: str) -> ResourceClaim:
    """Return a ResourceClaim. Raises WorldError."""
    meta, status = document.child("metadata"), document.child("status")
    owners = [one.text("uid") for one in meta.children("ownerReferences") if one.flag("controller")]
    status.only(("allocation", "reservedFor", "devices"))
    return ResourceClaim(
        namespace,
        meta.required_text("name"),
        meta.text("uid"),
        claim_spec(document.child("spec")),
        owner=owners[0] if owners else "",
        is_deleted=meta.has("deletionTimestamp"),
        allocation=_allocation(status.child("allocation")) if status.has("allocation") else None,
    )


def claim_spec(spec: Fields) -> ClaimSpec:
    """Return what a claim asks for. Raises WorldError."""
    spec.only(("devices",))
    devices = spec.child("devices")
    devices.only(("requests", "constraints", "config"))
    for name in ("requests", "constraints", "config"):
        if sum(1 for _ in devices.children(name)) > LIST_MAX:
            raise devices.error(name, f"must be at most {LIST_MAX}")
    requests = tuple(map(_request, devices.children("requests")))
    _check_unique(devices, [one.name for one in requests])
    return ClaimSpec(
        requests,
        tuple(map(_constraint, devices.children("constraints"))),
        tuple(map(_config, devices.children("config"))),
    )


def _check_unique(fields: Fields, names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise fields.error("requests", "must have names of their own")


def _request(fields: Fields) -> Request:
    fields.only(("name", "exactly", "firstAvailable"))
    name = fields.required_text("name")
    choice = list(fields.children("firstAvailable"))
    if fields.has("exactly") == bool(choice):
        raise fields.error("", "exactly one of exactly, firstAvailable is required")
    if not choice:
        exactly = fields.child("exactly")
        only(exactly, (*WANTED_FIELDS, "adminAccess"), LATER)
        return Request(name, (_wanted(exactly, ""),))
    if len(choice) > ALTERNATIVES_MAX:
        raise fields.error("firstAvailable", f"must be at most {ALTERNATIVES_MAX}")
    for one in choice:
        only(one, ("name", *WANTED_FIELDS), LATER)
    found = tuple(_wanted(one, one.required_text("name")) for one in choice)
    _check_unique(fields, [one.name for one in found])
    return Request(name, found, has_choice=True)


def _wanted(fields: Fields, name: str) -> Wanted:
    mode = fields.one_of("allocationMode", ("ExactCount", "All", ""), "") or "ExactCount"
    if mode == "All" and fields.integer("count", 0, 0, COUNT_MAX):
        raise fields.error("count", "must not be there with allocationMode All")
    tolerations = tuple(map(_toleration, fields.children("tolerations")))
    if len(tolerations) > TOLERATIONS_MAX:
        raise fields.error("tolerations", f"must be at most {TOLERATIONS_MAX}")
    return Wanted(
        fields.required_text("deviceClassName"),
        name,
        # The API server's default is 1, also where 0 is written.
        None if mode == "All" else fields.integer("count", 1, 0, COUNT_MAX) or 1,
        selectors(fields),
        admin_access=fields.flag("adminAccess"),
        tolerations=tolerations,
        capacity=_capacity(fields.child("capacity")),
    )


def _capacity(fields: Fields) -> Amounts:
    fields.only(("requests",))
    return _amounts(fields.child("requests"))


def _amounts(fields: Fields) -> Amounts:
    """Return amounts by name. Raises WorldError."""
    found = tuple((name, amount(fields, name)) for name in sorted(fields.values))
    for name, nano in found:
        if nano < 0:
            raise fields.error(name, "is negative")
    return tuple((full_name(fields, name), str(nano)) for name, nano in found)


def selectors(fields: Fields) -> tuple[str, ...]:
    """Return the CEL expressions of `selectors`, each compiled once. Raises WorldError."""
    found = []
    for one in fields.children("selectors"):
        one.only(("cel",))
        cel = one.child("cel")
        cel.only(("expression",))
        expression = cel.lines("expression")
        fault = _fault(expression)
        if fault:
            raise cel.error("expression", f"{fault} (in: {expression})")
        found.append(expression)
    if len(found) > LIST_MAX:
        raise fields.error("selectors", f"must be at most {LIST_MAX}")
    return tuple(found)


@lru_cache(SELECTORS_CACHED)
def _fault(expression: str) -> str:
    """Return why a CEL expression does not compile; empty if it does."""
    try:
        Selector(expression)
    except SelectorError as error:
        return str(error)
    return ""


def _toleration(fields: Fields) -> DeviceToleration:
    fields.only(("key", "operator", "value", "effect", "tolerationSeconds"))
    seconds = fields.integer("tolerationSeconds", 0, SECONDS_MIN, SECONDS_MAX)
    operator = fields.one_of("operator", ("Equal", "Exists", ""), "") or "Equal"
    if not fields.text("key") and operator == "Equal":
        raise fields.error("operator", "must be Exists without a key")
    return DeviceToleration(
        fields.text("key"),
        cast(Literal["Equal", "Exists"], operator),
        fields.text("value"),
        fields.text("effect"),
        None if fields.values.get("tolerationSeconds") is None else seconds,
    )


def _constraint(fields: Fields) -> Constraint:
    fields.only(("requests", "matchAttribute", "distinctAttribute"))
    same, other = fields.text("matchAttribute"), fields.text("distinctAttribute")
    if bool(same) == bool(other):
        raise fields.error("", "exactly one of matchAttribute, distinctAttribute is required")
    key = "matchAttribute" if same else "distinctAttribute"
    if "/" not in full_name(fields, same or other):
        raise fields.error(key, "must be a domain, a slash and an identifier")
    return Constraint(fields.texts("requests"), same, other)


def _config(fields: Fields) -> DeviceConfig:
    fields.only(("requests", "opaque", "source"))
    opaque = fields.child("opaque")
    opaque.only(("driver", "parameters"))
    parameters = opaque.values.get("parameters")
    return DeviceConfig(
        opaque.required_text("driver"),
        json.dumps(parameters, sort_keys=True, separators=(",", ":")),
        fields.texts("requests"),
    )


def _allocation(fields: Fields) -> Allocation:
    fields.only(("devices", "nodeSelector", "allocationTimestamp"))
    devices = fields.child("devices")
    devices.only(("results", "config"))
    results = tuple(map(_result, devices.children("results")))
    if len(results) > RESULTS_MAX:
        raise devices.error("results", f"must be at most {RESULTS_MAX}")
    selector = fields.child("nodeSelector")
    terms = tuple(map(affinity.selector_term, selector.children("nodeSelectorTerms")))
    return Allocation(
        results,
        tuple(
            AllocatedConfig(
                "FromClass" if one.text("source") == "FromClass" else "FromClaim", _config(one)
            )
            for one in devices.children("config")
        ),
        terms if fields.has("nodeSelector") else None,
    )


def _result(fields: Fields) -> DeviceResult:
    known = ("request", "driver", "pool", "device", "adminAccess", "tolerations")
    only(fields, (*known, "shareID", "consumedCapacity"), BOUND_LATER)
    return DeviceResult(
        fields.required_text("request"),
        fields.required_text("driver"),
        fields.required_text("pool"),
        fields.required_text("device"),
        fields.flag("adminAccess"),
        tuple(map(_toleration, fields.children("tolerations"))),
        fields.text("shareID"),
        _amounts(fields.child("consumedCapacity")),
    )


def pod_claims(spec: Fields, status: Fields) -> Iterator[PodClaim]:
    """Yield a pod's claims in the order of its spec. Raises WorldError."""
    made = {
        one.text("name"): one.text("resourceClaimName")
        for one in status.children("resourceClaimStatuses")
    }
    for one in spec.children("resourceClaims"):
        one.only(("name", "resourceClaimName", "resourceClaimTemplateName"))
        name = one.required_text("name")
        claim, template = one.text("resourceClaimName"), one.text("resourceClaimTemplateName")
        if bool(claim) == bool(template):
            rule = "exactly one of resourceClaimName, resourceClaimTemplateName is required"
            raise one.error("", rule)
        yield PodClaim(name, claim, template, made.get(name))
