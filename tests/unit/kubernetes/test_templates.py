"""Specs of a live API with an unreadable field: the pods' other requests still count."""

from typing import Any

import msgspec
import pytest

from shared.kubernetes.objects.structs import RawPodSpec
from shared.kubernetes.watching import templates as spec_templates
from shared.kubernetes.watching.templates import Known, Recent, Templates
from shared.model.objects import (
    GPU,
    RESTART_ALL_CONTAINERS,
    USER_NAMESPACES_ON_HOST_NETWORK,
    GpuRequest,
    HostPort,
    Toleration,
)
from shared.model.release import DEFAULT_RELEASE, TAINT_COMPARISON, VERSIONS, Release, release

GI = 1 << 30
ASKS = {"cpu": 2000, "memory": GI}
MAIN: dict[str, Any] = {
    "name": "c",
    "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
    "ports": [{"containerPort": 80, "hostPort": 80}],
}
RESTART = {"action": "RestartAllContainers"}
HTTP = HostPort(80, "TCP", "0.0.0.0")


def known(
    status: dict[str, Any] | None = None, release: Release = DEFAULT_RELEASE, **spec: Any
) -> Known:
    raw = msgspec.json.decode(msgspec.json.encode(spec), type=RawPodSpec)
    templates = Templates(release)
    resized = msgspec.json.encode(status) if status else b""
    return templates.of(raw, templates.labels(msgspec.Raw(b"{}")), (), resized)


def requests(found: Known) -> dict[str, int]:
    return dict(found.template.spec.requests)


def test_unused_entries_are_forgotten(monkeypatch):
    monkeypatch.setattr(spec_templates, "LOOKUPS", 10)
    recent: Recent[int, str] = Recent()
    recent.add(1, "used")
    recent.add(2, "unused")
    for _ in range(25):
        assert recent.get(1) == "used"
    assert recent.get(2) is None


@pytest.mark.parametrize("restarts", ["Never", "OnFailure"])
def test_an_init_container_with_another_restart_policy_is_no_sidecar(restarts):
    init = {
        "name": "i",
        "restartPolicy": restarts,
        "resources": {"requests": {"cpu": "3"}},
        "ports": [{"containerPort": 81, "hostPort": 81}],
    }
    found = known(containers=[MAIN], initContainers=[init])
    assert found.refused is None
    assert requests(found) == {"cpu": 3000, "memory": GI}
    assert found.template.spec.host_ports == (HTTP,)


def main(**changes: Any) -> dict[str, Any]:
    return MAIN | changes


def asks(**resources: Any) -> dict[str, Any]:
    return main(resources=MAIN["resources"] | resources)


SMALL = {"name": "s", "resources": {"requests": {"cpu": "1"}}}


@pytest.mark.parametrize(
    ("spec", "amounts"),
    [
        ({"initContainers": [{"name": "i", "restartPolicy": "Sometimes"}]}, ASKS),
        ({"initContainers": [SMALL | {"restartPolicy": "Sometimes"}]}, ASKS),
        ({"initContainers": [SMALL | {"resources": {"requests": {"cpu": "?"}}}]}, ASKS),
        ({"containers": [asks(new=1)]}, ASKS),
        ({"containers": [asks(limits={"cpu": "1"})]}, ASKS),
        ({"containers": [asks(limits={"cpu": "?"})]}, ASKS),
        ({"containers": [asks(requests={"cpu": "2", "memory": "?"})]}, {"cpu": 2000}),
        (
            {"containers": [asks(requests={"cpu": "2", "a.b/c": "-1", "memory": "1Gi"})]},
            ASKS,
        ),
        ({"containers": [main(name=""), SMALL]}, {"cpu": 3000, "memory": GI}),
        (
            {
                "containers": [
                    main(ports=[{"containerPort": 1, "protocol": "QUIC"}, *MAIN["ports"]])
                ]
            },
            ASKS,
        ),
        ({"containers": [main(ports=[{"hostPort": 1}, *MAIN["ports"]])]}, ASKS),
        ({"containers": [main(ports=[{"containerPort": 1, "x": 1}, *MAIN["ports"]])]}, ASKS),
        (
            {
                "containers": [
                    main(ports=[{"containerPort": 1, "hostPort": 99_999}, *MAIN["ports"]])
                ]
            },
            ASKS,
        ),
        (
            {"containers": [MAIN, SMALL | {"resources": {"requests": {"cpu": "9e18"}}}]},
            ASKS,
        ),
        ({"overhead": {"cpu": "1", "memory": "?"}}, {"cpu": 3000, "memory": GI}),
        (
            {"resources": {"requests": {"cpu": "3", "nvidia.com/gpu": "1"}}},
            {"cpu": 3000, "memory": GI},
        ),
        ({"resources": {"requests": {"cpu": "3"}, "new": {}}}, {"cpu": 3000, "memory": GI}),
        ({"priority": 1 << 40}, ASKS),
        ({"preemptionPolicy": "Maybe"}, ASKS),
        ({"tolerations": [{"key": "k", "operator": "New"}]}, ASKS),
        ({"nodeSelector": {"a": "b\nc"}}, ASKS),
        ({"schedulingGates": [{}]}, ASKS),
        ({"topologySpreadConstraints": [{}]}, ASKS),
        ({"affinity": {"nodeAffinity": {"new": 1}}}, ASKS),
        ({"affinity": {"podAffinity": {"new": 1}}}, ASKS),
        ({"affinity": {"new": {}}}, ASKS),
        ({"resourceClaims": [{"name": "g"}]}, ASKS),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}, ASKS),
        ({"workloadRef": {"name": "w"}}, ASKS),
        ({"schedulingGroup": {}}, ASKS),
    ],
)
def test_a_pod_that_runs_counts_with_all_that_can_be_read(spec, amounts):
    found = known(**{"containers": [MAIN]} | spec)
    assert found.refused is not None, "a waiting pod is not refused"
    assert requests(found) == amounts
    assert found.template.spec.host_ports == (HTTP,)


def test_devices_count_where_a_share_of_one_cannot_be_read():
    both = {"cpu": "2", GPU: "1", "muster.io/gpu-milli": "5"}
    found = known(containers=[asks(requests=both)])
    assert found.refused is not None
    assert requests(found) == {"cpu": 2000}
    assert found.template.spec.gpu == GpuRequest(1000, 1)


def test_an_unreadable_part_of_a_status_leaves_the_rest():
    told = {"name": "c", "resources": {"requests": {"cpu": "3", "memory": "?"}}}
    found = known({"containerStatuses": [told]}, containers=[MAIN])
    assert found.refused is not None
    assert requests(found) == {"cpu": 3000, "memory": GI}


def test_rules_about_other_pods_stay_where_a_container_cannot_be_read():
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    found = known(containers=[asks(new=1)], affinity=away)
    assert found.refused is not None
    assert len(found.template.spec.pod_anti_affinity) == 1


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({"containers": [MAIN | {"restartPolicyRules": [RESTART]}]}, (RESTART_ALL_CONTAINERS,)),
        ({"containers": [MAIN], "hostNetwork": True}, ()),
        (
            {"containers": [MAIN], "hostNetwork": True, "hostUsers": False},
            (USER_NAMESPACES_ON_HOST_NETWORK,),
        ),
    ],
)
def test_features_that_a_pod_needs_are_read(spec, features):
    assert known(**spec).template.spec.features == features


@pytest.mark.parametrize("version", VERSIONS)
def test_tolerations_that_compare_numbers_count_with_their_gate(version: str):
    more = {"key": "k", "operator": "Gt", "value": "7"}
    rules = [more, {"key": "k", "operator": "Exists", "effect": "NoExecute"}]
    exists = Toleration("k", "Exists", "", "NoExecute")
    for is_on, expected in ((True, (exists, Toleration("k", "Gt", "7"))), (False, (exists,))):
        about = release(version, {TAINT_COMPARISON: is_on})
        found = known(None, about, containers=[MAIN], tolerations=rules)
        assert found.refused is None
        assert found.template.spec.tolerations == expected
