"""Each release of kube-scheduler counts the requests of resized pods in its own way."""

from typing import Any

import msgspec
import pytest

from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.requests import effective
from shared.kubernetes.objects.structs import RawPod
from shared.kubernetes.watching.resized_pods import resized
from shared.model.release import POD_LEVEL_RESIZE, VERSIONS, release

V1_35, V1_36, V1_37 = VERSIONS
INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
Object = dict[str, Any]


def cpu(amount: str) -> Object:
    return {"requests": {"cpu": amount}}


def container(name: str, amount: str, **more: Any) -> Object:
    return {"name": name, "resources": cpu(amount), **more}


def told(name: str, has: str | None, granted: str | None = None) -> Object:
    found: Object = {"name": name}
    if has is not None:
        found["resources"] = cpu(has)
    if granted is not None:
        found["allocatedResources"] = {"cpu": granted}
    return found


def counted(
    version: str, spec: Object, status: Object, gates: dict[str, bool] | None = None
) -> tuple[int, int]:
    fields = Fields("", "spec", spec), Fields("", "status", status)
    found = effective(*fields, release(version, gates or {}))
    return found.real.get("cpu", 0), found.nonzero["cpu"]


def both(version: str, *statuses: Object, conditions: Any = (), **more: Any) -> int:
    """Two containers that ask for 3 and 1 cores."""
    spec = {"containers": [container("a", "3"), container("b", "1")]}
    status = {"containerStatuses": list(statuses), "conditions": list(conditions), **more}
    return counted(version, spec, status)[0]


@pytest.mark.parametrize(("version", "cores"), [(V1_35, 6), (V1_36, 6), (V1_37, 4)])
def test_containers_that_change_in_opposite_directions_count_as_a_sum_since_1_37(version, cores):
    assert both(version, told("a", "1", "1"), told("b", "3", "3")) == 1_000 * cores


@pytest.mark.parametrize(("version", "cores"), [(V1_36, 4), (V1_37, 5)])
def test_what_is_allocated_counts_without_actual_amounts_since_1_37(version, cores):
    assert both(version, told("b", None, "2")) == 1_000 * cores


@pytest.mark.parametrize(("version", "cores"), [(V1_36, 4), (V1_37, 3)])
def test_of_a_resize_that_cannot_be_granted_the_status_counts(version, cores):
    found = both(version, told("a", "1", "1"), told("b", "2", "2"), conditions=INFEASIBLE)
    assert found == 3_000
    # A container without a status counts with its spec up to 1.36, and not at all since.
    found = both(version, told("a", "3", "3"), conditions=INFEASIBLE)
    assert found == 1_000 * cores


@pytest.mark.parametrize(("version", "cores"), [(V1_36, 1), (V1_37, 5)])
def test_init_containers_count_with_their_status_since_1_37(version, cores):
    spec = {"containers": [container("a", "1")], "initContainers": [container("i", "1")]}
    status = {"initContainerStatuses": [told("i", "5", "5")]}
    assert counted(version, spec, status) == (1_000 * cores, 1_000 * cores)


def test_the_sums_that_a_status_has_replace_those_of_the_containers_since_1_37():
    sums: Object = {"allocatedResources": {"cpu": "5"}, "resources": cpu("2")}
    assert both(V1_37, told("a", "9", "9"), **sums) == 5_000
    assert both(V1_36, told("a", "9", "9"), **sums) == 10_000
    alone: Object = {"resources": cpu("2")}
    assert both(V1_37, told("a", "9", "9"), **alone) == 10_000


WHOLE = {"containers": [container("a", "1")], "resources": cpu("4")}
GRANTED: Object = {"resources": cpu("6"), "allocatedResources": {"cpu": "5"}}


@pytest.mark.parametrize(("version", "cores"), [(V1_35, 4), (V1_36, 6), (V1_37, 6)])
def test_a_pod_is_resized_as_a_whole_since_1_36(version, cores):
    assert counted(version, WHOLE, GRANTED) == (1_000 * cores, 1_000 * cores)
    less = {"resources": cpu("2"), "allocatedResources": {"cpu": "3"}}
    assert counted(version, WHOLE, less) == (4_000, 4_000)


@pytest.mark.parametrize("version", [V1_36, V1_37])
def test_a_gate_keeps_pods_whole(version):
    assert counted(version, WHOLE, GRANTED, {POD_LEVEL_RESIZE: False}) == (4_000, 4_000)
    less = {"resources": cpu("2"), "allocatedResources": {"cpu": "3"}, "conditions": INFEASIBLE}
    assert counted(version, WHOLE, less) == (3_000, 3_000)


def test_a_whole_pod_gets_what_its_spec_does_not_name_since_1_37():
    status = {"resources": {"requests": {"cpu": "4", "memory": "7"}}}
    spec = Fields("", "spec", WHOLE)
    found = [
        effective(spec, Fields("", "status", status), release(version, {})).real.get("memory", 0)
        for version in (V1_36, V1_37)
    ]
    assert found == [0, 7]


@pytest.mark.parametrize(("version", "cores"), [(V1_36, 3), (V1_37, 1)])
def test_requests_of_a_whole_pod_are_completed_from_its_containers_since_1_37(version, cores):
    memory = {"requests": {"memory": "1Gi"}}
    spec = {"containers": [container("a", "1")], "resources": memory}
    status = {"containerStatuses": [told("a", "3", "3")]}
    assert counted(version, spec, status)[0] == 1_000 * cores


def test_the_containers_huge_pages_belong_to_a_whole_pod():
    """So a resize that the node can never grant leaves none of them in 1.36."""
    pages = "hugepages-2Mi"
    limited = {"name": "a", "resources": {"limits": {pages: "4Mi"}}}
    spec = Fields("", "spec", {"containers": [limited], "resources": cpu("1")})
    refused = Fields("", "status", {"resources": {}, "conditions": INFEASIBLE})
    for status, expected in ((None, 4 << 20), (refused, 0)):
        assert effective(spec, status, release(V1_36, {})).real.get(pages, 0) == expected


def resized_status(spec: Object, status: Object) -> Object:
    pod = msgspec.json.encode({"metadata": {}, "spec": spec, "status": status})
    found = resized(msgspec.json.decode(pod, type=RawPod))
    read: Object = msgspec.json.decode(found) if found else {}
    return read


def test_what_a_pod_has_as_a_whole_is_read_of_a_live_pod():
    plain = {"containers": [container("a", "1")]}
    assert resized_status(plain, {"resources": cpu("2")}) == {}
    assert resized_status(plain, GRANTED) == GRANTED
    assert resized_status(WHOLE, {"resources": cpu("2")}) == {"resources": cpu("2")}


def test_all_statuses_of_a_pod_are_read_whose_resize_cannot_be_granted():
    spec = {"containers": [container("a", "3"), container("b", "1")]}
    statuses = [told("a", "3", "3"), told("b", "2", "2")]
    found = resized_status(spec, {"containerStatuses": statuses, "conditions": INFEASIBLE})
    assert found["containerStatuses"] == statuses
    assert resized_status(spec, {"containerStatuses": statuses}) == {
        "containerStatuses": statuses[1:]
    }
