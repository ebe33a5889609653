"""Assigned pods count with the current and the desired resources of their containers when they are
resized in place.
"""

import pytest
import yaml

from shared.worlds.manifests import manifests_world
from tests.unit.worlds.manifests import NODE, container, pod


@pytest.fixture
def spec_of(tmp_path):
    """Return the spec that is read from a file for a pod on a node."""

    def reading(made):
        path = tmp_path / "all.yaml"
        path.write_text(yaml.safe_dump_all([NODE, made]))
        (arrival,) = manifests_world([path]).arrivals
        return arrival.pods.spec

    return reading


def container_status(requests=None, granted=None, name="c"):
    """Return a container's status."""
    found = {"name": name, "allocatedResources": granted or {}}
    return found if requests is None else found | {"resources": {"requests": requests}}


def pending(reason):
    return {"type": "PodResizePending", "status": "True", "reason": reason}


@pytest.mark.parametrize(
    ("status", "cpu_milli"),
    [
        ({"containerStatuses": [container_status({"cpu": "3"})]}, 4000),
        ({"containerStatuses": [container_status({"cpu": "1"}, {"cpu": "2500m"})]}, 3500),
        ({"containerStatuses": [container_status({"cpu": "1"})]}, 3000),
        ({"containerStatuses": [container_status(granted={"cpu": "3"})]}, 3000),
        ({"containerStatuses": [container_status({"cpu": "3"}, name="gone")]}, 3000),
        ({"initContainerStatuses": [container_status({"cpu": "2"}, name="sidecar")]}, 4000),
        ({"initContainerStatuses": [container_status({"cpu": "5"}, name="init")]}, 3000),
        (
            {
                "containerStatuses": [container_status({"cpu": "1"})],
                "conditions": [pending("Deferred")],
            },
            3000,
        ),
        (
            {
                "containerStatuses": [container_status({"cpu": "1"})],
                "conditions": [pending("Infeasible")],
            },
            2000,
        ),
    ],
)
def test_a_pod_that_runs_counts_with_what_it_has_and_is_to_have(spec_of, status, cpu_milli):
    inits = [
        container(cpu="500m") | {"name": "init"},
        container(sidecar=True, cpu="1") | {"name": "sidecar"},
    ]
    made = pod(containers=[container(cpu="2")], initContainers=inits, nodeName="n1")
    assert spec_of(made | {"status": status}).request("cpu") == cpu_milli
    del made["spec"]["nodeName"]
    assert spec_of(made | {"status": status}).request("cpu") == 3000


def test_what_a_container_has_counts_for_scores_and_not_for_pod_level_requests(spec_of):
    status = {"containerStatuses": [container_status({"cpu": "3"})]}
    made = pod(containers=[container(cpu="2"), container()], nodeName="n1") | {"status": status}
    made["spec"]["containers"][1]["name"] = "other"
    assert spec_of(made).nonzero_cpu_milli == 3100
    for whole, cpu_milli in (
        ({"limits": {"cpu": "8"}}, 2000),
        ({"requests": {"memory": "1Gi"}}, 3000),
    ):
        made["spec"]["resources"] = whole
        assert spec_of(made).request("cpu") == cpu_milli
    made["spec"]["containers"][1]["resources"] = {"limits": {"hugepages-2Mi": "2Mi"}}
    assert spec_of(made).request("cpu") == 2000
