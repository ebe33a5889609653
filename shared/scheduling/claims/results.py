"""What is recorded of a choice: devices, parameters, and the nodes that reach the devices."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from shared.model.claims import (
    AllocatedConfig,
    Allocation,
    Device,
    DeviceClass,
    DeviceResult,
    ResourceClaim,
    ResourceSlice,
)
from shared.model.objects import Requirement, SelectorTerm
from shared.model.release import V1_37
from shared.scheduling.claims.reach import NAME, NodeView


class Chosen(Struct, frozen=True):
    """A device that is chosen for a request."""

    result: DeviceResult
    slice: ResourceSlice
    device: Device


Classes = Sequence[tuple[str, DeviceClass]]
"""The chosen alternative of each request by its name, and its class."""


def allocation_of(
    claim: ResourceClaim,
    chosen: Sequence[Chosen],
    classes: Classes,
    node: NodeView,
    version: str,
) -> Allocation:
    """Return what a claim gets on the node in a release of kube-scheduler."""
    results, nodes = tuple(one.result for one in chosen), _nodes(chosen, node)
    if version < V1_37:
        each = [*_from_classes(classes), *_from_claim_each(claim, classes)]
        return Allocation(results, tuple(each), nodes)
    found = [*_from_classes(classes), *_from_claim(claim, classes)]
    names = [
        {request.name, name}
        for request, (name, _) in zip(claim.spec.requests, classes, strict=True)
    ]
    config = tuple(
        replace(one, config=replace(one.config, requests=()))
        if all(held & set(one.config.requests) for held in names)
        else one
        for one in found
    )
    return Allocation(results, config, nodes)


def _from_classes(classes: Classes) -> list[AllocatedConfig]:
    """Return the parameters of each class once, for all requests that have it."""
    requests: dict[str, list[str]] = {}
    held: dict[str, DeviceClass] = {}
    for name, one in classes:
        requests.setdefault(one.name, []).append(name)
        held[one.name] = one
    return [
        AllocatedConfig("FromClass", replace(config, requests=tuple(requests[name])))
        for name, one in held.items()
        for config in one.config
    ]


def _from_claim(claim: ResourceClaim, classes: Classes) -> list[AllocatedConfig]:
    """Return the claim's parameters that apply to a request, or to its chosen alternative."""
    names = {one.name for one in claim.spec.requests} | {name for name, _ in classes}
    return [
        AllocatedConfig("FromClaim", one)
        for one in claim.spec.config
        if not one.requests or names & set(one.requests)
    ]


def _from_claim_each(claim: ResourceClaim, classes: Classes) -> list[AllocatedConfig]:
    """Return the same once for each request that parameters name, as before 1.37."""
    found = []
    for one in claim.spec.config:
        named = [
            request
            for request, (name, _) in zip(claim.spec.requests, classes, strict=True)
            if {request.name, name} & set(one.requests)
        ]
        times = len(named) if one.requests else 1
        found += [AllocatedConfig("FromClaim", one)] * times
    return found


def _nodes(chosen: Sequence[Chosen], node: NodeView) -> tuple[SelectorTerm, ...] | None:
    """Return the term that holds where all devices are reached, None if that is everywhere
    (createNodeSelector).
    """
    labels: list[Requirement] = []
    fields: list[Requirement] = []
    for one in chosen:
        reach = one.device.reach if one.slice.reach is None else one.slice.reach
        if reach.node:
            return (SelectorTerm(fields=(Requirement(NAME, "In", (node.name,)),)),)
        if reach.term is not None:
            labels += [need for need in reach.term.labels if need not in labels]
            fields += [need for need in reach.term.fields if need not in fields]
    if not (labels or fields):
        return None
    return (SelectorTerm(tuple(labels), tuple(fields)),)


def prioritized(claim: ResourceClaim, allocation: Allocation, most: int) -> int:
    """Return the score of a claim: for each chosen alternative `most` less its place."""
    requests = {one.request for one in allocation.results}
    return sum(
        most - number
        for request in claim.spec.requests
        if request.has_choice
        for number, wanted in enumerate(request.wanted)
        if f"{request.name}/{wanted.name}" in requests
    )
