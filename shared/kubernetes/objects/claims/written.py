"""Writes an allocation as the API has it (status.allocation of a ResourceClaim)."""

import json
from typing import Any

from shared.model.claims import AllocatedConfig, Allocation, DeviceResult
from shared.model.objects import Requirement, SelectorTerm


def allocation_object(given: Allocation) -> dict[str, Any]:
    """Return status.allocation."""
    devices: dict[str, Any] = {}
    if given.results:
        devices["results"] = [_result(one) for one in given.results]
    if given.config:
        devices["config"] = [_config(one) for one in given.config]
    found: dict[str, Any] = {"devices": devices}
    if given.nodes is not None:
        found["nodeSelector"] = {"nodeSelectorTerms": [_term(one) for one in given.nodes]}
    return found


def _result(one: DeviceResult) -> dict[str, Any]:
    found: dict[str, Any] = {
        "request": one.request,
        "driver": one.driver,
        "pool": one.pool,
        "device": one.device,
    }
    if one.admin_access:
        found["adminAccess"] = True
    if one.tolerations:
        found["tolerations"] = [
            _without_empty(
                {"key": has.key, "operator": has.operator, "value": has.value, "effect": has.effect}
            )
            | ({} if has.seconds is None else {"tolerationSeconds": has.seconds})
            for has in one.tolerations
        ]
    if one.share_id:
        found["shareID"] = one.share_id
    if one.consumed:
        found["consumedCapacity"] = {name: _quantity(int(nano)) for name, nano in one.consumed}
    return found


def _quantity(nano: int) -> str:
    """Return an amount of billionths as a quantity."""
    for suffix, unit in (("", 10**9), ("m", 10**6), ("u", 10**3)):
        if nano % unit == 0:
            return f"{nano // unit}{suffix}"
    return f"{nano}n"


def _config(one: AllocatedConfig) -> dict[str, Any]:
    opaque = {"driver": one.config.driver, "parameters": json.loads(one.config.parameters)}
    found: dict[str, Any] = {"source": one.source, "opaque": opaque}
    if one.config.requests:
        found["requests"] = list(one.config.requests)
    return found


def _term(one: SelectorTerm) -> dict[str, Any]:
    return _without_empty(
        {
            "matchExpressions": [_need(need) for need in one.labels],
            "matchFields": [_need(need) for need in one.fields],
        }
    )


def _need(one: Requirement) -> dict[str, Any]:
    return _without_empty({"key": one.key, "operator": one.operator, "values": list(one.values)})


def _without_empty(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value}
