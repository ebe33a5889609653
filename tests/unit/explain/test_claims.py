"""`muster score` about pods with resource claims: what DynamicResources adds to the answers of the
other plugins. Its choices are compared with kube-scheduler's in tests/parity/suites/test_claims.py.
"""

import json

import pytest

from muster.cli.main import main
from muster.explain.scoring import score_case
from shared.kubernetes.objects.errors import WorldError
from shared.model.release import V1_36, V1_37, ReleaseOptions
from tests.parity.suites.builders import node, pod

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
WEIGHT, BEST = 2, 100
NO_DEVICES = "cannot allocate all claims"
SAMPLING = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 50,
}


def dra(kind, name, **rest):
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, **rest}


def gpus(at, *names):
    devices = [{"name": name} for name in names]
    pool = {"name": at, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": at, "pool": pool, "devices": devices}
    return dra("ResourceSlice", f"of-{at}", spec=spec)


def gpu_class(name="gpu", *selectors):
    cel = [{"cel": {"expression": one}} for one in selectors]
    return dra("DeviceClass", name, spec={"selectors": cel})


def claim(name="c", *requests, **status):
    asked = requests or ({"name": "r", "exactly": {"deviceClassName": "gpu"}},)
    return dra("ResourceClaim", name, spec={"devices": {"requests": list(asked)}}, **status)


def using(*claims, **spec):
    uses = [{"name": f"x{at}", "resourceClaimName": one} for at, one in enumerate(claims)]
    found = pod(resourceClaims=uses, **spec)
    found["spec"]["containers"][0]["resources"] = {
        "claims": [{"name": one["name"]} for one in uses]
    }
    return found


def answer(*objects, asked, **more):
    return score_case({"objects": list(objects), "pods": [asked], **more})["pods"][0]


def test_a_pod_fits_where_its_claims_get_devices():
    objects = node("a"), node("b"), gpu_class(), gpus("a", "d0", "d1"), claim()
    found = answer(*objects, asked=using("c"))
    assert found["best"] == ["a"]
    results = found["nodes"]["a"]["allocations"]["default/c"]["devices"]["results"]
    assert results == [{"request": "r", "driver": DRIVER, "pool": "a", "device": "d0"}]
    refused = found["nodes"]["b"]
    assert (refused["code"], refused["plugin"]) == (
        "UnschedulableAndUnresolvable",
        "DynamicResources",
    )
    assert refused["reasons"] == [NO_DEVICES]


def test_the_reasons_of_all_plugins_are_counted():
    small = node("b", cpu="0")
    objects = node("a"), small, gpu_class(), claim()
    asked = using("c")
    asked["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    found = answer(*objects, asked=asked)
    assert found["nodes"]["b"]["plugin"] == "NodeResourcesFit"
    assert found["best"] == []
    counts = f"1 Insufficient cpu, 1 {NO_DEVICES}"
    assert found["fitError"] == f"0/2 nodes are available: {counts}."


def test_devices_that_other_claims_have_are_not_given_twice():
    result = {"request": "r", "driver": DRIVER, "pool": "a", "device": "d0"}
    held = claim("other", status={"allocation": {"devices": {"results": [result]}}})
    objects = node("a"), gpu_class(), gpus("a", "d0"), claim(), held
    found = answer(*objects, asked=using("c"))
    assert found["fitError"] == f"0/1 nodes are available: 1 {NO_DEVICES}."


def test_the_first_alternative_scores_most():
    first, second = ({"name": name, "deviceClassName": name} for name in ("big", "gpu"))
    alternatives = {"name": "r", "firstAvailable": [first, second]}
    classes = gpu_class(), gpu_class("big", 'device.driver == "gpu.example.com" && false')
    big = gpus("b", "d0")
    big["spec"]["driver"] = "big.example.com"
    classes[1]["spec"]["selectors"][0]["cel"]["expression"] = 'device.driver == "big.example.com"'
    objects = *classes, node("a"), node("b"), gpus("a", "d0"), big, claim("c", alternatives)
    found = answer(*objects, asked=using("c"))
    scores = {name: one["scores"]["DynamicResources"] for name, one in found["nodes"].items()}
    assert scores == {"a": WEIGHT * (BEST * 7 // 8), "b": WEIGHT * BEST}
    assert found["best"] == ["b"]
    assert found["nodes"]["b"]["total"] == sum(found["nodes"]["b"]["scores"].values())


def test_a_missing_claim_rejects_the_pod_before_it_is_tried():
    found = answer(node("a"), asked=using("c"))
    message = 'could not find ResourceClaim "default/c"'
    status = {
        "code": "UnschedulableAndUnresolvable",
        "reasons": [message],
        "plugin": "DynamicResources",
    }
    assert found["preEnqueueStatus"] == found["preFilterStatus"] == status
    assert found["nodes"]["a"]["reasons"] == [message]
    assert found["fitError"] == f"0/1 nodes are available: {message}."
    assert found["best"] == []


def test_a_plugin_before_it_rejects_the_pod_first():
    wrong = {"persistentVolumeClaim": {"claimName": "nobody"}}
    asked = using("c", volumes=[{"name": "v", **wrong}])
    found = answer(node("a"), asked=asked)
    assert found["preFilterStatus"]["reasons"] == ['persistentvolumeclaim "nobody" not found']
    assert found["preEnqueueStatus"]["plugin"] == "DynamicResources"


def test_it_rejects_nodes_before_the_filters_after_it():
    asked = using("c")
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}}]
    asked["spec"]["containers"][0]["restartPolicyRules"] = rules
    case = {"objects": [node("a"), gpu_class(), claim()], "pods": [asked]}
    found = score_case(case, release=ReleaseOptions(compatibility="1.36"))["pods"][0]
    assert found["nodes"]["a"]["reasons"] == [NO_DEVICES]


def test_a_selector_that_fails_ends_the_attempt_on_all_nodes():
    selector = f'device.attributes["{DRIVER}"].model == "a"'
    fits = gpus("b", "d0")
    fits["spec"]["devices"][0]["attributes"] = {"model": {"string": "a"}}
    objects = node("a"), node("b"), gpu_class("gpu", selector), gpus("a", "d0"), fits, claim()
    found = answer(*objects, asked=using("c"))
    assert [found["nodes"][name]["code"] for name in "ab"] == ["Error", "Success"]
    assert found["best"] == []
    assert found["fitError"].startswith('running "DynamicResources" filter plugin: class gpu: ')


def test_a_profile_without_the_plugin_does_not_look_at_claims():
    off = [{"name": "DynamicResources"}]
    profile = {"plugins": {"multiPoint": {"disabled": off}}}
    config = {**SAMPLING, "percentageOfNodesToScore": 100, "profiles": [profile]}
    found = answer(node("a"), asked=using("c"), config=config)
    assert found["best"] == ["a"]


def test_the_table_names_the_devices_of_the_best_node(tmp_path, capsys):
    file = tmp_path / "case.json"
    objects = [node("a"), gpu_class(), gpus("a", "d0"), claim()]
    file.write_text(json.dumps({"objects": objects, "pods": [using("c")]}))
    assert main(["score", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "claim default/c would get gpu.example.com/a/d0 on a" in shown


@pytest.mark.parametrize(
    ("version", "selector", "fits"),
    [
        (V1_36, {}, True),
        (V1_37, None, True),
        (V1_37, {}, False),
        (V1_37, {"driver": DRIVER, "pool": "a", "device": "d0"}, False),
        (V1_37, {"driver": "other.example.com"}, True),
        (V1_37, {"pool": "b"}, True),
        (V1_37, {"driver": DRIVER, "device": "d1"}, True),
    ],
)
def test_rules_taint_the_devices_that_they_select_since_1_37(version, selector, fits):
    taint = {"key": "k", "effect": "NoSchedule"}
    rule = dra("DeviceTaintRule", "t", spec={"deviceSelector": selector, "taint": taint})
    objects = [node("a"), gpu_class(), gpus("a", "d0"), claim(), rule]
    found = score_case(
        {"objects": objects, "pods": [using("c")]}, release=ReleaseOptions(compatibility=version)
    )
    assert found["pods"][0]["nodes"]["a"]["feasible"] is fits


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            {"preempt": True},
            "Pod default/p: spec.resourceClaims: pods with claims are not supported",
        ),
        ({"config": SAMPLING}, "not supported in a profile that samples nodes"),
        (
            {"objects": [claim() | {"apiVersion": "resource.k8s.io/v1beta1"}]},
            "objects[0]: ResourceClaim c: apiVersion: must be resource.k8s.io/v1",
        ),
        ({"objects": [claim(), claim()]}, "ResourceClaim c: metadata.name: is a duplicate"),
        (
            {"objects": [dra("DeviceTaintRule", "t", spec={"deviceSelector": {"class": "c"}})]},
            "DeviceTaintRule t: spec.deviceSelector.class: is an unknown field",
        ),
        ({"pods": [pod(resourceClaims=[{"name": "g"}])]}, "exactly one of resourceClaimName,"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_object_field_and_rule(case, message):
    with pytest.raises(WorldError) as error:
        score_case({"objects": [node("a")], "pods": [using("c")], **case})
    assert message in str(error.value)
