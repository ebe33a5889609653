"""A pod's effective requests from its containers, as kube-scheduler counts them.

Per resource: max(containers + sidecars, each init container + the sidecars before it) + overhead;
sums are exact and rounded up once. Pod-level requests take the place of cpu, memory and huge pages;
where there are pod-level limits, the API fills in the requests that are missing. For scoring only,
100m and 200Mi count for every container that asks for no cpu or no memory (an explicit "0" stays
0): of the pods on a node not for what the pod asks for as a whole, of the pod that is scored always
and without its pod-level requests, which kube-scheduler 1.35's LeastAllocated does not look at.
"""

from collections.abc import Callable
from dataclasses import dataclass

from shared.adapters.worlds import quantities
from shared.adapters.worlds.fields import Fields
from shared.model.objects import (
    CPU,
    DEFAULT_CPU_MILLI,
    DEFAULT_MEMORY_BYTES,
    GPU,
    MEMORY,
    GpuRequest,
)

GPU_MILLI = "muster.io/gpu-milli"
GPU_WHOLE_MILLI = 1000
DEFAULTS = {CPU: DEFAULT_CPU_MILLI, MEMORY: DEFAULT_MEMORY_BYTES}

Amounts = dict[str, int]
Sums = dict[str, quantities.Exact]


@dataclass
class Effective:
    """What a pod asks for: real amounts, and cpu and memory with scoring's defaults as a pod on a
    node (`nonzero`) and as the pod that is scored (`asked`).
    """

    real: Amounts
    nonzero: Amounts
    asked: Amounts


def _add(total: Sums, amounts: Sums) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Sums, amounts: Sums) -> None:
    for name, amount in amounts.items():
        total[name] = max(total.get(name, 0), amount)


def container_requests(container: Fields) -> Sums:
    """One container's requests; where only a limit is given, it is the request."""
    resources = container.child("resources")
    resources.only(("requests", "limits", "claims"))
    if resources.has("claims"):
        raise resources.error("claims", "resource claims are not supported")
    requests, limits = resources.exact("requests"), resources.exact("limits")
    for name, amount in requests.items():
        if name in limits and limits[name] < amount:
            raise resources.child("limits").error(name, "is less than the request")
    return limits | requests


def _nonzero(amounts: Sums) -> Sums:
    return {name: amounts.get(name, default) for name, default in DEFAULTS.items()}


def _is_sidecar(container: Fields) -> bool:
    return container.one_of("restartPolicy", ("", "Always"), "") == "Always"


def effective(spec: Fields) -> Effective:
    """The effective requests of a pod spec."""
    real = _formula(spec, container_requests)
    asked = _formula(spec, lambda container: _nonzero(container_requests(container)))
    whole = _pod_level(spec, real)
    real.update(whole)
    overhead = spec.exact("overhead")
    for sums in (real, asked):
        _add(sums, overhead)
    nonzero = asked
    if whole:
        nonzero = {name: real.get(name, asked[name]) for name in DEFAULTS}
    found = Effective(*({n: quantities.rounded(s[n]) for n in s} for s in (real, nonzero, asked)))
    _check_range(spec, found.real)
    return found


def _pod_level(spec: Fields, containers: Sums) -> Sums:
    """What the pod asks for as a whole, with the API's defaults; empty where it does not say."""
    resources = spec.child("resources")
    resources.only(("requests", "limits"))
    limits, requests = resources.exact("limits"), resources.exact("requests")
    for name in (*limits, *requests):
        if name not in DEFAULTS and not name.startswith("hugepages-"):
            raise resources.child("requests").error(name, "is not a pod-level resource")
    if limits:
        given = {name: containers[name] for name in DEFAULTS if name in containers}
        requests = limits | given | requests
    return requests


def _formula(spec: Fields, read: Callable[[Fields], Sums]) -> Sums:
    total: Sums = {}
    for container in spec.children("containers"):
        _add(total, read(container))
    sidecars: Sums = {}
    most: Sums = {}
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
