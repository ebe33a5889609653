"""A workload file is read whole, or refused with its file, field and rule."""

import json

import pytest

from muster.flood.read import pod_spec, read_workload
from muster.flood.workload import CreateNodes, CreateObjects, CreatePods
from shared.kubernetes.objects.errors import WorldError
from shared.model.objects import CPU, MEMORY, PODS
from shared.model.volumes import ClaimUse

CPUS = {"status": {"capacity": {"cpus": 1}}}
PODS_STEP = {"opcode": "createPods", "count": 1}


def read(tmp_path, *steps, **others):
    file = tmp_path / "w.json"
    file.write_text(json.dumps({"steps": [*steps, PODS_STEP], **others}))
    return read_workload(file)


def test_a_workload_has_scheduler_perfs_nodes_and_pods_unless_it_says_otherwise(tmp_path):
    found = read(tmp_path, {"opcode": "createNodes", "count": 2, "zones": ["a", "b"]})
    nodes, pods = found.steps
    assert (found.name, found.seed) == ("w", 1)
    assert isinstance(nodes, CreateNodes)
    assert dict(nodes.made.allocatable) == {CPU: 4_000, MEMORY: 32 << 30, PODS: 110}
    assert isinstance(pods, CreatePods)
    ((template, weight),) = pods.mix
    assert (template.spec.request(CPU), template.spec.request(MEMORY)) == (100, 500 << 20)
    assert (weight, pods.is_measured, pods.stays) == (1, True, False)


def test_a_seed_of_the_command_line_wins(tmp_path):
    read(tmp_path, seed=3)
    assert read_workload(tmp_path / "w.json").seed == 3
    assert read_workload(tmp_path / "w.json", 9).seed == 9


def test_a_template_may_name_the_number_of_its_pod(tmp_path):
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "pvc-{{.Index}}"}}]
    spec = {"containers": [{"name": "c"}], "volumes": volumes}
    claimed = {"opcode": "createPods", "count": 2, "template": "claimed"}
    found = read(tmp_path, claimed, podTemplates={"claimed": {"spec": spec}}).steps[0]
    assert isinstance(found, CreatePods)
    template = found.mix[0][0]
    assert template.is_numbered
    assert pod_spec(template, 7).volumes == (ClaimUse("pvc-7"),)


def test_objects_are_numbered(tmp_path):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s-{{.Index}}"}}
    service["spec"] = {"selector": {"app": "{{.Index}}"}}
    found = read(tmp_path, {"opcode": "createAny", "count": 2, "template": service}).steps[0]
    assert isinstance(found, CreateObjects)
    assert [one.name for one in found.objects] == ["s-0", "s-1"]


def test_pods_may_come_in_several_namespaces(tmp_path):
    step = {**PODS_STEP, "namespace": "team", "namespaces": 2}
    first, second, _ = read(tmp_path, step).steps
    assert isinstance(first, CreatePods)
    assert isinstance(second, CreatePods)
    assert [first.namespace, second.namespace] == ["team-0", "team-1"]


def test_images_of_a_template_do_not_matter(tmp_path):
    spec = {"containers": [{"name": "c", "image": "nginx:1"}]}
    step = {**PODS_STEP, "template": "a"}
    found = read(tmp_path, step, podTemplates={"a": {"spec": spec}}).steps[0]
    assert isinstance(found, CreatePods)
    assert found.mix[0][0].spec.images == ()


def arriving(**fields):
    return {**PODS_STEP, "arrival": fields}


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ({"opcode": "createPod"}, "steps[0].opcode: 'createPod' is not one of createNodes,"),
        ({}, "steps[0].opcode: is required"),
        ({"opcode": "createPods"}, "steps[0].count: is required"),
        ({"opcode": "createPods", "count": 0}, "steps[0].count: 0 is not within 1..10000000"),
        ({**PODS_STEP, "nodes": 1}, "steps[0].nodes: is an unknown field"),
        ({**PODS_STEP, "template": "plan"}, "no podTemplate 'plan'; did you mean plain?"),
        ({**PODS_STEP, "mix": {"plain": 1, "b": 2}}, "steps[0].mix: no podTemplate 'b'"),
        ({**PODS_STEP, "mix": {}, "template": "plain"}, "cannot be combined with template"),
        (arriving(process="poison"), "arrival.process: 'poison' is not one of burst, even,"),
        (arriving(process="poisson"), "steps[0].arrival.perSecond: must be more than 0"),
        (arriving(process="even", perSecond=1, size=2), "arrival.size: is an unknown field"),
        (arriving(size=2), "steps[0].arrival.every: is required: size and every go together"),
        (arriving(process="diurnal", perSecond=1, swing=2), "swing: must be more than 0 and at"),
        (arriving(process="diurnal", perSecond=1), "steps[0].arrival.period: is required"),
        ({"opcode": "sleep", "duration": "5"}, "steps[0].duration: '5' is not a duration"),
        ({"opcode": "createGangs", "count": 1}, "steps[0].size: is required"),
        ({"opcode": "createGangs", "count": 1, "size": 2, "minCount": 3}, "3 is not within 1..2"),
        (
            {"opcode": "createAny", "count": 1, "template": {"kind": "Secret"}},
            "steps[0].template.kind: 'Secret' is not one of Namespace,",
        ),
        (
            {
                "opcode": "createNodes",
                "count": 1,
                "template": {"status": {"capacity": {"cpus": 1}}},
            },
            "steps[0].template.status.capacity.cpus: is neither cpu,",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_by_file_field_and_rule(tmp_path, step, text):
    with pytest.raises(WorldError) as caught:
        read(tmp_path, step)
    assert str(caught.value).startswith(f"{tmp_path / 'w.json'}: ")
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ({"opcodes": []}, "opcodes: is an unknown field"),
        ({"seed": -1}, "seed: -1 is not within 0.."),
        ({"podTemplates": {"a": {"spec": {"nodeName": "n"}}}}, "podTemplates.a.spec.nodeName: "),
        (
            {"podTemplates": {"a": {"spec": {"containers": [{"name": "c", "cpu": 1}]}}}},
            "podTemplates.a.spec.containers[0].cpu: ",
        ),
    ],
)
def test_a_file_is_refused_by_field_and_rule(tmp_path, others, text):
    with pytest.raises(WorldError) as caught:
        read(tmp_path, **others)
    assert text in str(caught.value)


def test_a_flood_without_pods_is_refused(tmp_path):
    (tmp_path / "w.yaml").write_text("steps: [{opcode: barrier}]")
    with pytest.raises(WorldError, match="steps: must have a createPods"):
        read_workload(tmp_path / "w.yaml")
