"""Objects of dynamic resource allocation: what is read, what is refused, by field and rule."""

from typing import Any

import pytest

from shared.kubernetes.objects.claims.claims import (
    claim_template,
    device_class,
    pod_claims,
    resource_claim,
)
from shared.kubernetes.objects.claims.devices import resource_slice
from shared.kubernetes.objects.claims.written import allocation_object
from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.model.claims import Attribute, CapacityPolicy, CounterSet, Reach
from shared.model.pod_rules.pod_claims import PodClaim

Object = dict[str, Any]

META = {"name": "x"}
POOL = {"name": "p", "resourceSliceCount": 1}

COUNTERS = {"memory": {"value": "40Gi"}, "cores": {"value": "500m"}}
MEMORY = {"name": "c", "counters": COUNTERS}
CONSUMED = {"counterSet": "c", "counters": COUNTERS}
GROUPS = {"compatibilityGroups": ["g"]}


def slice_with(**changes):
    spec = {"driver": "d.com", "pool": POOL, "nodeName": "n", "devices": [{"name": "a"}]} | changes
    return resource_slice(Fields.root("ResourceSlice x", {"metadata": META, "spec": spec}))


def claim_with(status=None, **devices):
    found = {"metadata": META, "spec": {"devices": devices}} | (
        {"status": status} if status else {}
    )
    return resource_claim(Fields.root("ResourceClaim x", found), "default")


def wanted(**changes):
    return [{"name": "r", "exactly": {"deviceClassName": "gpu"} | changes}]


def with_policy(**fields):
    return {"name": "a", "capacity": {"m": {"value": "1", "requestPolicy": fields}}}


def test_policies_are_read():
    limits = {"min": "1", "max": "3", "step": "1"}
    found = slice_with(devices=[with_policy(default="2", validRange=limits)])
    nano = [f"{one}000000000" for one in (2, 1, 3, 1)]
    policy = CapacityPolicy("m", nano[0], (), True, *nano[1:])
    assert found.devices[0].policies == (policy,)
    found = slice_with(devices=[with_policy(default="2", validValues=["2", "3"])])
    policy = CapacityPolicy("m", nano[0], (nano[0], nano[2]))
    assert found.devices[0].policies == (policy,)


def test_a_slice_is_read():
    device = {
        "name": "a",
        "attributes": {"index": {"int": 1}, "e.com/v": {"version": "1.2.3"}},
        "capacity": {"memory": {"value": "1500m"}},
        "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
    }
    found = slice_with(devices=[device])
    assert found.reach == Reach("n")
    assert dict(found.devices[0].attributes)["e.com/v"] == Attribute("version", "1.2.3")
    assert dict(found.devices[0].capacity) == {"memory": "1500000000"}


def test_counters_are_read():
    amounts = (("cores", "500000000"), ("memory", str((40 << 30) * 10**9)))
    found = slice_with(devices=[], sharedCounters=[MEMORY])
    assert found.counters == (CounterSet("c", amounts),)
    found = slice_with(devices=[{"name": "a", "consumesCounters": [CONSUMED]}])
    assert found.devices[0].consumes == (CounterSet("c", amounts),)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"allNodes": True}, "spec: exactly one of nodeName"),
        ({"sharedCounters": [{"name": "c"}]}, "spec.sharedCounters[0].counters: must be 1 to 32"),
        ({"sharedCounters": [MEMORY]}, "spec.sharedCounters: must not be in a slice with devices"),
        ({"sharedCounters": [MEMORY] * 9, "devices": []}, "spec.sharedCounters: must be at most 8"),
        (
            {"devices": [{"name": "a", "consumesCounters": [CONSUMED | {"counters": {}}]}]},
            "spec.devices[0].consumesCounters[0].counters: must be 1 to 32",
        ),
        (
            {"devices": [{"name": "a", "consumesCounters": [CONSUMED] * 3}]},
            "spec.devices[0].consumesCounters: must be at most 2",
        ),
        (
            {"devices": [{"name": "a", "consumesCounters": [CONSUMED | GROUPS]}]},
            "consumesCounters[0].compatibilityGroups: is not supported by muster yet",
        ),
        ({"surprise": 1}, "spec.surprise: is an unknown field"),
        ({"driver": ""}, "spec.driver: is required"),
        (
            {"devices": [{"name": "a", "bindingConditions": ["ready"]}]},
            "spec.devices[0].bindingConditions: is not supported by muster yet",
        ),
        (
            {"devices": [with_policy(validRange={"step": "1"})]},
            "requestPolicy.validRange.step: must be more than 0, and have a min",
        ),
        (
            {"devices": [with_policy(validRange={"min": "0", "step": "0"})]},
            "requestPolicy.validRange.step: must be more than 0, and have a min",
        ),
        (
            {"devices": [with_policy(validValues=["1"] * 11)]},
            "requestPolicy.validValues: must be at most 10",
        ),
        (
            {"devices": [with_policy(validValues=5)]},
            "requestPolicy.validValues: must be a list, is 5",
        ),
        (
            {"devices": [with_policy(validValues=["x"])]},
            "requestPolicy.validValues: 'x' is not a quantity",
        ),
        (
            {"devices": [{"name": "a", "attributes": {"m": {"version": "1"}}}]},
            "spec.devices[0].attributes.m.version: '1' is not a version",
        ),
        (
            {"devices": [{"name": "a", "attributes": {"m": {"strings": ["x"]}}}]},
            "spec.devices[0].attributes.m.strings: is not supported by muster yet",
        ),
        (
            {"devices": [{"name": "a", "capacity": {"m": {"value": "x"}}}]},
            "spec.devices[0].capacity.m.value: 'x' is not a quantity",
        ),
        (
            {"devices": [{"name": "a", "capacity": {"m": {"value": "-1"}}}]},
            "spec.devices[0].capacity.m.value: '-1' is negative",
        ),
    ],
)
def test_a_slice_that_is_not_understood(changes, said):
    with pytest.raises(WorldError) as caught:
        slice_with(**changes)
    assert said in str(caught.value)
    assert str(caught.value).startswith("ResourceSlice x: ")


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ({"requests": wanted(capacity={"m": "1"})}, "exactly.capacity.m: is an unknown field"),
        ({"requests": wanted(capacity={"requests": {"m": "-1"}})}, "requests.m: is negative"),
        ({"requests": wanted(capacity={"requests": {"m": "x"}})}, "requests.m: 'x' is not a qua"),
        ({"requests": [{"name": "r"}]}, "requests[0]: exactly one of exactly, firstAvailable"),
        ({"requests": wanted() * 2}, "devices.requests: must have names of their own"),
        ({"requests": wanted(allocationMode="Some")}, "allocationMode: 'Some' is not one of"),
        (
            {"requests": wanted(selectors=[{"cel": {"expression": "1 +"}}])},
            "requests[0].exactly.selectors[0].cel.expression: column 4",
        ),
        (
            {"constraints": [{"matchAttribute": "m"}]},
            "constraints[0].matchAttribute: must be a dom",
        ),
        ({"constraints": [{"requests": ["r"]}]}, "constraints[0]: exactly one of matchAttribute"),
    ],
)
def test_a_claim_that_is_not_understood(devices, said):
    with pytest.raises(WorldError) as caught:
        claim_with(**devices)
    assert said in str(caught.value)


def test_an_allocation_is_written_as_it_was_read():
    need: Object = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    result: Object = {"request": "r", "driver": "d.com", "pool": "p", "device": "a"}
    result["adminAccess"] = True
    tolerated: Object = {"key": "k", "operator": "Exists", "tolerationSeconds": 60}
    opaque: Object = {"driver": "d.com", "parameters": {"a": [1]}}
    allocation: Object = {
        "devices": {
            "results": [result | {"tolerations": [tolerated]}],
            "config": [{"source": "FromClass", "requests": ["r"], "opaque": opaque}],
        },
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [need]}]},
    }
    found = claim_with({"allocation": allocation}, requests=wanted())
    assert found.allocation is not None
    assert allocation_object(found.allocation) == allocation


def test_a_share_is_written_as_it_was_read():
    result: Object = {"request": "r", "driver": "d.com", "pool": "p", "device": "a"}
    result |= {"shareID": "s", "consumedCapacity": {"cores": "500m", "memory": "10", "n": "1n"}}
    allocation: Object = {"devices": {"results": [result]}}
    found = claim_with({"allocation": allocation}, requests=wanted())
    assert found.allocation is not None
    assert allocation_object(found.allocation) == allocation


def test_classes_templates_and_the_claims_of_a_pod():
    selector = {"cel": {"expression": "true"}}
    spec: Object = {"selectors": [selector], "extendedResourceName": "e.com/gpu"}
    assert device_class(Fields.root("c", {"metadata": META, "spec": spec})).selectors == ("true",)
    spec = {"spec": {"devices": {"requests": wanted()}}}
    template = claim_template(Fields.root("t", {"metadata": META, "spec": spec}), "default")
    assert template.spec.requests[0].wanted[0].count == 1
    uses = [
        {"name": "a", "resourceClaimName": "c"},
        {"name": "b", "resourceClaimTemplateName": "t"},
    ]
    pod = Fields.root("p", {"resourceClaims": uses})
    made = Fields.root("s", {"resourceClaimStatuses": [{"name": "b"}]})
    assert list(pod_claims(pod, made)) == [PodClaim("a", "c"), PodClaim("b", "", "t", "")]
