"""Reads ResourceSlices, the devices that drivers publish, and rules that taint devices
(api/resource/v1/types.go).
"""

from typing import get_args

from shared.kubernetes.objects import affinity
from shared.kubernetes.objects.claims.names import amount, full_name, only
from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.model.claims import (
    Attribute,
    AttributeKind,
    CapacityPolicy,
    CounterSet,
    Device,
    DeviceTaint,
    DeviceTaintRule,
    Reach,
    ResourceSlice,
)
from shared.scheduling.claims.cel.values import semver

DEVICES_MAX, NAMED_MAX, TAINTS_MAX = 128, 32, 16
SETS_MAX, CONSUMED_MAX, COUNTERS_MAX, VALUES_MAX = 8, 2, 32, 10
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

SLICE_FIELDS = ("driver", "pool", "devices", "perDeviceNodeSelection", "nodeName", "allNodes")
REACH_FIELDS = ("nodeName", "allNodes", "nodeSelector")


def resource_slice(document: Fields) -> ResourceSlice:
    """Return a ResourceSlice. Raises WorldError."""
    spec = document.child("spec")
    only(spec, (*SLICE_FIELDS, "nodeSelector", "sharedCounters"), ("partitionTypeAttribute",))
    pool = spec.child("pool")
    pool.only(("name", "generation", "resourceSliceCount"))
    each = spec.flag("perDeviceNodeSelection")
    reaches = [name for name in REACH_FIELDS if _is_set(spec, name)]
    if len(reaches) + each != 1:
        rule = "exactly one of nodeName, nodeSelector, allNodes, perDeviceNodeSelection is required"
        raise spec.error("", rule)
    devices = tuple(_device(one, each) for one in spec.children("devices"))
    if len(devices) > DEVICES_MAX:
        raise spec.error("devices", f"must be at most {DEVICES_MAX}")
    counters = _counter_sets(spec, "sharedCounters", "name", SETS_MAX)
    if counters and devices:
        raise spec.error("sharedCounters", "must not be in a slice with devices")
    return ResourceSlice(
        document.child("metadata").required_text("name"),
        spec.required_text("driver"),
        pool.required_text("name"),
        pool.integer("generation", 0, 0, INT64_MAX),
        pool.integer("resourceSliceCount", 0, 1, INT64_MAX),
        None if each else reach(spec),
        devices,
        counters,
    )


def taint_rule(document: Fields) -> DeviceTaintRule:
    """Return a DeviceTaintRule. Raises WorldError."""
    spec = document.child("spec")
    spec.only(("deviceSelector", "taint"))
    selector = spec.child("deviceSelector")
    selector.only(("driver", "pool", "device"))
    return DeviceTaintRule(
        _taint(spec.child("taint")),
        spec.has("deviceSelector"),
        *(
            selector.text(key) if selector.has(key) else None
            for key in ("driver", "pool", "device")
        ),
    )


def _counter_sets(fields: Fields, key: str, name: str, most: int) -> tuple[CounterSet, ...]:
    """Return counter sets, or what is consumed of them. Raises WorldError."""
    found = []
    for one in fields.children(key):
        only(one, (name, "counters"), ("compatibilityGroups",))
        counters = one.child("counters")
        if not 0 < len(counters.values) <= COUNTERS_MAX:
            raise one.error("counters", f"must be 1 to {COUNTERS_MAX}")
        amounts = ((each, str(_capacity(counters.child(each)))) for each in sorted(counters.values))
        found.append(CounterSet(one.required_text(name), tuple(amounts)))
    if len(found) > most:
        raise fields.error(key, f"must be at most {most}")
    return tuple(found)


def _is_set(fields: Fields, name: str) -> bool:
    return fields.flag(name) if name == "allNodes" else fields.has(name)


def reach(fields: Fields) -> Reach:
    """Return which nodes reach a slice or device. Raises WorldError."""
    term = None
    if fields.has("nodeSelector"):
        selector = fields.child("nodeSelector")
        selector.only(("nodeSelectorTerms",))
        terms = list(selector.children("nodeSelectorTerms"))
        if len(terms) != 1:
            raise selector.error("nodeSelectorTerms", "must be one term")
        term = affinity.selector_term(terms[0])
    return Reach(fields.text("nodeName"), fields.flag("allNodes"), term)


def _device(fields: Fields, has_reach: bool) -> Device:
    later = (
        *("bindsToNode", "bindingConditions", "bindingFailureConditions"),
        "nodeAllocatableResources",
    )
    reaches = REACH_FIELDS if has_reach else ()
    known = ("name", "attributes", "capacity", "taints", "consumesCounters")
    only(fields, (*known, "allowMultipleAllocations", *reaches), later)
    if has_reach and sum(_is_set(fields, name) for name in REACH_FIELDS) != 1:
        raise fields.error("", "exactly one of nodeName, nodeSelector, allNodes is required")
    attributes, capacity = fields.child("attributes"), fields.child("capacity")
    if len(attributes.values) + len(capacity.values) > NAMED_MAX:
        raise fields.error("attributes", f"with capacities must be at most {NAMED_MAX}")
    taints = tuple(map(_taint, fields.children("taints")))
    if len(taints) > TAINTS_MAX:
        raise fields.error("taints", f"must be at most {TAINTS_MAX}")
    return Device(
        fields.required_text("name"),
        tuple(
            (full_name(attributes, one), _attribute(attributes.child(one)))
            for one in sorted(attributes.values)
        ),
        tuple(
            (full_name(capacity, one), _capacity(capacity.child(one)))
            for one in sorted(capacity.values)
        ),
        taints,
        reach(fields) if has_reach else Reach(),
        _counter_sets(fields, "consumesCounters", "counterSet", CONSUMED_MAX),
        fields.flag("allowMultipleAllocations"),
        tuple(
            _policy(one, capacity.child(one).child("requestPolicy"))
            for one in sorted(capacity.values)
            if capacity.child(one).has("requestPolicy")
        ),
    )


def _policy(name: str, fields: Fields) -> CapacityPolicy:
    fields.only(("default", "validValues", "validRange"))
    limits = fields.child("validRange")
    limits.only(("min", "max", "step"))
    if limits.has("step") and not (limits.has("min") and amount(limits, "step") > 0):
        raise limits.error("step", "must be more than 0, and have a min")
    values = fields.values.get("validValues") or []
    if not isinstance(values, list):
        raise fields.error("validValues", f"must be a list, is {shown(values)}")
    if len(values) > VALUES_MAX:
        raise fields.error("validValues", f"must be at most {VALUES_MAX}")
    return CapacityPolicy(
        name,
        _optional(fields, "default"),
        tuple(
            str(amount(Fields(fields.what, fields.path, {"validValues": one}), "validValues"))
            for one in values
        ),
        fields.has("validRange"),
        _optional(limits, "min"),
        _optional(limits, "max"),
        _optional(limits, "step"),
    )


def _optional(fields: Fields, key: str) -> str:
    return str(amount(fields, key)) if fields.has(key) else ""


def _attribute(fields: Fields) -> Attribute:
    kinds: tuple[AttributeKind, ...] = get_args(AttributeKind)
    only(fields, kinds, tuple(f"{one}s" for one in kinds))
    found = [one for one in kinds if fields.has(one)]
    if len(found) != 1:
        raise fields.error("", f"exactly one of {', '.join(kinds)} is required")
    match found[0]:
        case "bool":
            return Attribute("bool", fields.flag("bool"))
        case "int":
            return Attribute("int", fields.integer("int", 0, INT64_MIN, INT64_MAX))
        case "string":
            return Attribute("string", fields.lines("string"))
        case "version":
            text = fields.text("version")
            try:
                semver(text)
            except ValueError as error:
                raise fields.error("version", str(error)) from error
            return Attribute("version", text)


def _capacity(fields: Fields) -> str:
    fields.only(("value", "requestPolicy"))
    found = amount(fields, "value")
    if found < 0:
        raise fields.error("value", f"{shown(fields.values['value'])} is negative")
    return str(found)


def _taint(fields: Fields) -> DeviceTaint:
    fields.only(("key", "value", "effect", "timeAdded"))
    effect = fields.required_text("effect")
    return DeviceTaint(fields.required_text("key"), fields.text("value"), effect)
