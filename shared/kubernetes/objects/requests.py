"""A pod's effective requests from its containers, as kube-scheduler counts them.

For each resource: max(containers + sidecars, each init container + the sidecars before it) +
overhead; sums are exact and rounded up once. Pod-level requests replace cpu, memory and huge pages;
where there are pod-level limits, the API fills in missing requests, since 1.37 also where there are
requests. For scoring only, a container without a cpu or memory request counts 100m and 200Mi (an
explicit "0" stays 0). For pods on a node this does not apply to pod-level requests; for the scored
pod it always applies and its pod-level requests are ignored, as kube-scheduler's LeastAllocated
does.

Running containers may be resized in place (KEP-1287): the maximum of requested, allocated and
actual amounts counts for each resource. A resize that the node can never grant does not count. Up
to 1.36 this is the maximum of each container, since 1.37 that of the whole pod's three sums. Pods
may also be resized as a whole (since 1.36), with one status for all containers.
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
from shared.model.release import DEFAULT_RELEASE, POD_LEVEL_RESIZE, V1_37, Release

GPU_MILLI = "muster.io/gpu-milli"
GPU_WHOLE_MILLI = 1000
HUGE_PAGES = "hugepages-"
RESTARTS = ("", "Always", "Never", "OnFailure")
DEFAULTS = {CPU: DEFAULT_CPU_MILLI, MEMORY: DEFAULT_MEMORY_BYTES}

Amounts = dict[str, int]
Sums = dict[str, quantities.Exact]


@dataclass
class Effective:
    """What a pod asks for: real amounts; cpu and memory with scoring's defaults as a pod on a node
    (`nonzero`); and all with defaults as the pod that NodeResourcesFit scores (`asked`).
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
    """Return a container's requests; a limit without a request is the request."""
    resources = container.child("resources")
    resources.only(("requests", "limits", "claims"))
    for one in resources.children("claims"):
        one.only(("name", "request"))
    requests, limits = resources.exact("requests"), resources.exact("limits")
    for name, amount in requests.items():
        if name in limits and limits[name] < amount:
            raise resources.child("limits").error(name, "is less than the request")
    return limits | requests


def _as_status_says(status: Fields) -> Callable[[Fields], Sums]:
    """Return the reader of a running pod's containers; an init container that ended
    keeps its spec.
    """
    granted = {
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
        given = granted.get(container.text("name"))
        if ends or given is None:
            return requests
        highest = requests if counts_spec else {}
        for one in given:
            _raise_to(highest, one)
        return highest

    return read


def _sums_that_status_says(
    spec: Fields, status: Fields, of: Callable[[Sums], Sums], *, is_whole: bool
) -> Sums:
    """Return the maximum of what a running pod's containers request, are allocated, and have. `of`
    adds defaults to those of one container. `is_whole`: the status has the sums of the pod.
    """
    told = {
        one.text("name"): one
        for key in ("initContainerStatuses", "containerStatuses")
        for one in status.children(key)
    }
    is_infeasible = _is_infeasible(status)

    def asked(container: Fields) -> Sums:
        return of(container_requests(container))

    def allocated(container: Fields) -> Sums:
        one = told.get(container.text("name"))
        if one is not None and one.has("allocatedResources"):
            return of(one.exact("allocatedResources"))
        return of({}) if is_infeasible else asked(container)

    def actual(container: Fields) -> Sums:
        one = told.get(container.text("name"))
        if one is not None and one.child("resources").has("requests"):
            return of(one.child("resources").exact("requests"))
        return allocated(container)

    highest = {} if is_infeasible else _formula(spec, asked)
    pod = status.child("resources")
    if is_whole and status.has("allocatedResources") and pod.has("requests"):
        _raise_to(highest, status.exact("allocatedResources"))
        _raise_to(highest, pod.exact("requests"))
        return highest
    _raise_to(highest, _formula(spec, allocated))
    _raise_to(highest, _formula(spec, actual))
    return highest


def _resized_whole(whole: Sums, status: Fields, release: Release) -> Sums:
    """Return a running pod's pod-level requests: of requested, allocated and actual amounts the
    maximum. Since 1.37 also those that the spec does not name.
    """
    if not whole or not status.has("resources") or not release.has(POD_LEVEL_RESIZE):
        return whole
    highest = {} if _is_infeasible(status) else dict(whole)
    for one in (status.child("resources").exact("requests"), status.exact("allocatedResources")):
        _raise_to(highest, one)
    if release.version < V1_37:
        return {name: highest.get(name, 0) for name in whole}
    return {name: highest[name] for name in highest if _is_pod_level(name)}


def _is_pod_level(name: str) -> bool:
    return name in DEFAULTS or name.startswith(HUGE_PAGES)


def _is_infeasible(status: Fields) -> bool:
    """Return whether the node can never grant the resize. The first condition of the
    type counts.
    """
    for one in status.children("conditions"):
        if one.text("type") == "PodResizePending":
            return one.text("reason") == "Infeasible"
    return False


def _nonzero(amounts: Sums) -> Sums:
    return DEFAULTS | amounts


def _is_sidecar(container: Fields) -> bool:
    """Return whether an init container is a sidecar. With another restartPolicy than Always it ends
    (KEP-5307 allows others).
    """
    return container.one_of("restartPolicy", RESTARTS, "") == "Always"


def effective(
    spec: Fields, status: Fields | None = None, release: Release = DEFAULT_RELEASE
) -> Effective:
    """Return the effective requests of a pod spec; for a pod with a node, with its status."""
    if status is not None and release.version >= V1_37:
        is_whole = release.has(POD_LEVEL_RESIZE)
        real = _sums_that_status_says(spec, status, dict, is_whole=is_whole)
        none: Sums = dict.fromkeys(DEFAULTS, 0)
        asked = none | _sums_that_status_says(spec, status, _nonzero, is_whole=is_whole)
    else:
        read = container_requests if status is None else _as_status_says(status)
        real = _formula(spec, read)
        asked = _formula(spec, lambda container: _nonzero(read(container)))
    # The API has computed the pod-level requests from the spec alone.
    alone = real if status is None else _formula(spec, container_requests)
    whole = _pod_level(spec, alone, release)
    if status is not None:
        whole = _resized_whole(whole, status, release)
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
    """Return amounts for scoring only, capped: defaults may push a sum beyond int64, which refuses
    no pod.
    """
    return {name: min(quantities.rounded(sums[name]), quantities.INT64_MAX) for name in sums}


def _pod_level(spec: Fields, containers: Sums, release: Release) -> Sums:
    """Return the pod-level requests with the API's defaults; empty where the pod has none."""
    resources = spec.child("resources")
    resources.only(("requests", "limits"))
    limits, requests = resources.exact("limits"), resources.exact("requests")
    for name in (*limits, *requests):
        if not _is_pod_level(name):
            raise resources.child("requests").error(name, "is not a pod-level resource")
    # The API makes the containers' huge pages a pod-level limit, and completes requests where there
    # are limits, since 1.37 in any case.
    pages = {name: n for name, n in containers.items() if name.startswith(HUGE_PAGES)}
    if limits or (requests and (pages or release.version >= V1_37)):
        given = {name: containers[name] for name in DEFAULTS if name in containers}
        requests = pages | limits | given | requests
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
    """Remove the GPU resources from the amounts and return them: whole devices, or a
    share of one.
    """
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
