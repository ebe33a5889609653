"""A pod's effective requests from its containers, as kube-scheduler counts them.

Per resource: max(containers + sidecars, each init container + the sidecars before it) + overhead;
pod-level requests override cpu and memory. The nonzero amounts (for scoring only) use 100m and
200Mi for every container that asks for no cpu or no memory; an explicit "0" stays 0.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from shared.adapters.worlds import quantities
from shared.adapters.worlds.fields import Fields
from shared.model.objects import (
    CPU,
    DEFAULT_CPU_MILLI,
    DEFAULT_MEMORY_BYTES,
    MEMORY,
    GpuRequest,
)

GPU = "nvidia.com/gpu"
GPU_MILLI = "muster.io/gpu-milli"
GPU_WHOLE_MILLI = 1000
DEFAULTS = {CPU: DEFAULT_CPU_MILLI, MEMORY: DEFAULT_MEMORY_BYTES}

Amounts = dict[str, int]


@dataclass
class Effective:
    """What a pod asks for: real amounts, and cpu and memory with scoring's defaults."""

    real: Amounts = field(default_factory=dict)
    nonzero: Amounts = field(default_factory=dict)


def _add(total: Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = max(total.get(name, 0), amount)


def container_requests(container: Fields) -> Amounts:
    """One container's requests; where only a limit is given, it is the request."""
    resources = container.child("resources")
    resources.only(("requests", "limits", "claims"))
    if resources.has("claims"):
        raise resources.error("claims", "resource claims are not supported")
    requests, limits = resources.amounts("requests"), resources.amounts("limits")
    for name, amount in requests.items():
        if name in limits and limits[name] < amount:
            raise resources.child("limits").error(name, "is less than the request")
    return limits | requests


def _nonzero(amounts: Amounts) -> Amounts:
    return {name: amounts.get(name, default) for name, default in DEFAULTS.items()}


def _is_sidecar(container: Fields) -> bool:
    return container.one_of("restartPolicy", ("", "Always"), "") == "Always"


def effective(spec: Fields) -> Effective:
    """The effective requests of a pod spec."""
    found = Effective(
        _formula(spec, container_requests),
        _formula(spec, lambda container: _nonzero(container_requests(container))),
    )
    resources = spec.child("resources")
    resources.only(("requests", "limits"))
    pod_level = resources.amounts("limits") | resources.amounts("requests")
    for name, amount in pod_level.items():
        if name not in DEFAULTS and not name.startswith("hugepages-"):
            raise resources.child("requests").error(name, "is not a pod-level resource")
        found.real[name] = amount
        if name in DEFAULTS:
            found.nonzero[name] = amount
    overhead = spec.amounts("overhead")
    _add(found.real, overhead)
    _add(found.nonzero, {name: overhead.get(name, 0) for name in DEFAULTS})
    _check_range(spec, found.real)
    return found


def _formula(spec: Fields, read: Callable[[Fields], Amounts]) -> Amounts:
    total: Amounts = {}
    for container in spec.children("containers"):
        _add(total, read(container))
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in spec.children("initContainers"):
        amounts = read(container)
        if _is_sidecar(container):
            _add(sidecars, amounts)
            _add(total, amounts)
            _raise_to(most, sidecars)
        else:
            _add(amounts, sidecars)
            _raise_to(most, amounts)
    _raise_to(total, most)
    return total


def _check_range(spec: Fields, amounts: Amounts) -> None:
    for name, amount in sorted(amounts.items()):
        if amount > quantities.INT64_MAX:
            raise spec.error("containers", f"the sum of {name} is out of range")


def take_gpu(spec: Fields, amounts: Amounts) -> GpuRequest | None:
    """Take the GPU resources out of the amounts: whole devices, or a fraction of one."""
    count, milli = amounts.pop(GPU, 0), amounts.pop(GPU_MILLI, 0)
    if count and milli:
        raise spec.error("containers", f"{GPU} and {GPU_MILLI} exclude each other")
    if milli > GPU_WHOLE_MILLI:
        raise spec.error(
            "containers", f"{GPU_MILLI} is at most {GPU_WHOLE_MILLI} (one device); ask for {GPU}"
        )
    if milli:
        return GpuRequest(milli)
    return GpuRequest(GPU_WHOLE_MILLI, count) if count else None
