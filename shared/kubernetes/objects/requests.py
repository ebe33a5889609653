"""A pod's effective requests from its containers, as kube-scheduler counts them.

Per resource: max(containers + sidecars, each init container + the sidecars before it) + overhead;
sums are exact and rounded up once. Pod-level requests take the place of cpu, memory and huge pages;
where there are pod-level limits, the API fills in the requests that are missing. For scoring only,
100m and 200Mi count for every container that asks for no cpu or no memory (an explicit "0" stays
0): of the pods on a node not for what the pod asks for as a whole, of the pod that is scored always
and without its pod-level requests, which kube-scheduler 1.35's LeastAllocated does not look at.

Containers that run may be resized in place (KEP-1287): of each resource the highest of what the
spec asks for, what was granted and what the container has counts. A resize that the node can never
grant does not count.
"""

from collections.abc import Callable
from dataclasses import dataclass

from shared.kubernetes.objects import quantities
from shared.kubernetes.objects.fields import Fields
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
HUGE_PAGES = "hugepages-"
RESTARTS = ("", "Always", "Never", "OnFailure")
DEFAULTS = {CPU: DEFAULT_CPU_MILLI, MEMORY: DEFAULT_MEMORY_BYTES}

Amounts = dict[str, int]
Sums = dict[str, quantities.Exact]


@dataclass
class Effective:
    """What a pod asks for: real amounts, and with scoring's defaults for cpu and memory as a pod on
    a node (`nonzero`, these two alone) and as the pod that NodeResourcesFit scores (`asked`).
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
    if list(resources.children("claims")):
        raise resources.error("claims", "resource claims are not supported")
    requests, limits = resources.exact("requests"), resources.exact("limits")
    for name, amount in requests.items():
        if name in limits and limits[name] < amount:
            raise resources.child("limits").error(name, "is less than the request")
    return limits | requests


def _as_status_says(status: Fields) -> Callable[[Fields], Sums]:
    """How containers of a pod that runs are read; an init container that ends keeps its spec."""
    told = {
        one.text("name"): (
            one.child("resources").exact("requests"),
            one.exact("allocatedResources"),
        )
        for key in ("containerStatuses", "initContainerStatuses")
        for one in status.children(key)
        if one.has("resources")
    }
    counts_spec = not _is_infeasible(status)

    def read(container: Fields) -> Sums:
        requests = container_requests(container)
        ends = "initContainers" in container.path and not _is_sidecar(container)
        given = told.get(container.text("name"))
        if ends or given is None:
            return requests
        highest = requests if counts_spec else {}
        for one in given:
            _raise_to(highest, one)
        return highest

    return read


def _is_infeasible(status: Fields) -> bool:
    """What the first condition of its type says counts."""
    for one in status.children("conditions"):
        if one.text("type") == "PodResizePending":
            return one.text("reason") == "Infeasible"
    return False


def _nonzero(amounts: Sums) -> Sums:
    return DEFAULTS | amounts


def _is_sidecar(container: Fields) -> bool:
    """Init containers with another restartPolicy end (KEP-5307 lets them name one)."""
    return container.one_of("restartPolicy", RESTARTS, "") == "Always"


def effective(spec: Fields, status: Fields | None = None) -> Effective:
    """The effective requests of a pod spec; of a pod that has a node, with its status."""
    read = container_requests if status is None else _as_status_says(status)
    real = _formula(spec, read)
    asked = _formula(spec, lambda container: _nonzero(read(container)))
    # The API has made the pod-level requests from the spec alone.
    whole = _pod_level(spec, real if status is None else _formula(spec, container_requests))
    real.update(whole)
    overhead = spec.exact("overhead")
    for sums in (real, asked):
        _add(sums, overhead)
    nonzero = asked
    if whole:
        nonzero = {name: real.get(name, asked[name]) for name in DEFAULTS}
    found = {name: quantities.rounded(amount) for name, amount in real.items()}
    _check_range(spec, found)
    return Effective(found, _cut(nonzero), _cut(asked))


def _cut(sums: Sums) -> Amounts:
    """What is for scores alone: defaults may take a sum beyond int64, which refuses no pod."""
    return {name: min(quantities.rounded(sums[name]), quantities.INT64_MAX) for name in sums}


def _pod_level(spec: Fields, containers: Sums) -> Sums:
    """What the pod asks for as a whole, with the API's defaults; empty where it does not say."""
    resources = spec.child("resources")
    resources.only(("requests", "limits"))
    limits, requests = resources.exact("limits"), resources.exact("requests")
    for name in (*limits, *requests):
        if name not in DEFAULTS and not name.startswith(HUGE_PAGES):
            raise resources.child("requests").error(name, "is not a pod-level resource")
    # Huge pages of containers are limits that the API gives the pod as a whole.
    if limits or (requests and any(name.startswith(HUGE_PAGES) for name in containers)):
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
