"""Queues of other schedulers, as Queues, with what has no counterpart."""

from pathlib import Path

import pytest

from muster.cli.main import main
from muster.queue_import.convert import Imported, convert
from shared.adapters import bounded_yaml
from shared.kubernetes.objects.errors import WorldError

YUNIKORN = """
partitions:
- name: default
  placementrules: [{name: tag, value: namespace}]
  queues:
  - name: root
    submitacl: '*'
    queues:
    - name: Team_A
      resources: {guaranteed: {vcore: 10, memory: 20Gi}, max: {vcore: 40, nvidia.com/gpu: 8}}
      maxapplications: 5
      queues: [{name: train}]
    - {name: b, parent: false}
"""
TEAM_A = "partitions[0].queues[0].queues[0]"
KAI = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec:
  parentQueue: org
  priority: 100
  resources:
    cpu: {quota: 1500, limit: -1, overQuotaWeight: 1}
    gpu: {quota: 4, limit: 8}
    memory: {quota: -1, limit: 2000.5}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: org}
spec: {displayName: Organisation}
"""
VOLCANO = """
apiVersion: v1
kind: List
items:
- apiVersion: scheduling.volcano.sh/v1beta1
  kind: Queue
  metadata: {name: low}
  spec: {weight: 1, parent: root, capability: {cpu: "8"}, deserved: {cpu: "4"}}
  status: {state: Open}
- apiVersion: scheduling.volcano.sh/v1beta1
  kind: Queue
  metadata: {name: high}
  spec: {parent: low, guarantee: {resource: {cpu: "2"}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: other}}
"""
QUOTAS = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: quota, namespace: shop}
spec: {min: {cpu: 2}, max: {cpu: 4}}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata:
  name: web
  labels:
    quota.scheduling.koordinator.sh/parent: koordinator-root-quota
    quota.scheduling.koordinator.sh/allow-lent-resource: "false"
spec: {min: {cpu: 1}}
"""


def converted(folder: Path, text: str) -> Imported:
    (folder / "file").write_text(text)
    return convert([folder / "file"])


def specs(found: Imported) -> list[tuple[str, dict[str, object]]]:
    return [(one["metadata"]["name"], one["spec"]) for one in found.manifests]


def noted(found: Imported, folder: Path) -> list[str]:
    return [note.removeprefix(f"{folder / 'file'} ") for note in found.notes]


def test_queues_of_yunikorn_are_named_by_their_paths(tmp_path):
    found = converted(tmp_path, YUNIKORN)
    limits = {
        "parent": "root",
        "max": {"cpu": 40, "nvidia.com/gpu": 8},
        "guaranteed": {"cpu": 10, "memory": "20Gi"},
    }
    assert specs(found) == [
        ("root", {}),
        ("root.b", {"parent": "root"}),
        ("root.team-a", limits),
        ("root.team-a.train", {"parent": "root.team-a"}),
    ]
    assert noted(found, tmp_path) == [
        "document 1: partition default: partitions[0].placementrules has no counterpart",
        "document 1: root: partitions[0].queues[0].submitacl has no counterpart",
        "document 1: queue Team_A below root is named root.team-a",
        f"document 1: root.team-a: {TEAM_A}.maxapplications has no counterpart",
    ]


def test_queues_of_yunikorn_without_a_root_get_one(tmp_path):
    found = converted(tmp_path, "partitions: [{name: default, queues: [{name: a}, {name: b}]}]")
    below = {"parent": "root"}
    assert specs(found) == [("root", {}), ("root.a", below), ("root.b", below)]


def test_the_configuration_of_yunikorn_may_be_in_its_config_map(tmp_path):
    lines = "\n".join(f"    {line}" for line in YUNIKORN.splitlines())
    text = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  queues.yaml: |\n{lines}"
    )
    assert specs(converted(tmp_path, text)) == specs(converted(tmp_path, YUNIKORN))


def test_a_queue_of_kai_has_units_of_its_own(tmp_path):
    found = converted(tmp_path, KAI)
    limits = {
        "parent": "org",
        "max": {"nvidia.com/gpu": "8", "memory": "2000.5M"},
        "guaranteed": {"cpu": "1500m", "nvidia.com/gpu": "4"},
    }
    assert specs(found) == [("org", {}), ("team", limits)]
    assert noted(found, tmp_path) == [
        "document 1: team: spec.priority has no counterpart",
        "document 1: team: spec.resources.cpu.overQuotaWeight has no counterpart",
        "document 1: team: spec.resources.memory.quota: a guarantee must have a limit",
    ]


def test_queues_of_volcano_are_guaranteed_what_they_deserve(tmp_path):
    found = converted(tmp_path, VOLCANO)
    assert specs(found) == [
        ("low", {"max": {"cpu": "8"}, "guaranteed": {"cpu": "4"}}),
        ("high", {"parent": "low", "guaranteed": {"cpu": "2"}}),
    ]
    assert [note.partition(": ")[2] for note in found.notes] == [
        "low: spec.weight has no counterpart",
        "high: spec.guarantee.resource: others may borrow what it reserves",
    ]


def test_what_volcano_guarantees_counts_for_each_resource_and_its_root_if_it_is_there(tmp_path):
    text = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: root}
spec: {capability: {cpu: 9}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: a}
spec: {deserved: {gpu.com/a: 4}, guarantee: {resource: {cpu: 4}}}
"""
    assert specs(converted(tmp_path, text)) == [
        ("root", {"max": {"cpu": 9}}),
        ("a", {"parent": "root", "guaranteed": {"cpu": 4, "gpu.com/a": 4}}),
    ]


def test_a_quota_of_koordinator_has_its_name_and_what_is_lost_is_named(tmp_path):
    text = QUOTAS.partition("---")[2].replace("  labels:\n", "  annotations:\n", 1)
    found = converted(tmp_path, text)
    assert specs(found) == [("web", {"guaranteed": {"cpu": 1}})]
    assert "allow-lent-resource has no counterpart" in found.notes[0]


def test_an_elastic_quota_is_its_namespace_or_has_a_name_of_its_own(tmp_path):
    found = converted(tmp_path, QUOTAS)
    assert specs(found) == [
        ("shop", {"max": {"cpu": 4}, "guaranteed": {"cpu": 2}}),
        ("web", {"guaranteed": {"cpu": 1}}),
    ]
    assert [note.partition(": ")[2] for note in found.notes] == [
        "shop: needs the label muster.io/queue=shop on its namespace",
        "web: quota.scheduling.koordinator.sh/allow-lent-resource has no counterpart",
    ]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (KAI.partition("---")[0], "team: spec.parent: org is no Queue"),
        (KAI + "---" + KAI.rpartition("---")[2], "document 3: org: is a duplicate"),
        (KAI.replace("1500", "many"), "spec.resources.cpu.quota: must be a number"),
        (YUNIKORN.replace("Team_A", "ÄÖ"), "queues[0].name: must have a letter or digit of ASCII"),
        (KAI.replace("1500", ".inf"), "spec.resources.cpu.quota: must be finite"),
        (KAI.replace("gpu:", "tpu:"), "spec.resources.tpu: is an unknown field"),
        (YUNIKORN.replace("vcore: 10", "vcore: ten"), "spec.guaranteed.cpu: "),
        (YUNIKORN.replace("vcore: 40", "vcore: 4"), "is 10, above its max 4"),
        (YUNIKORN.replace("- name: root", "- nam: root"), "queues[0].name: is required"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: p}}", "holds no queues of "),
    ],
)
def test_what_is_no_tree_of_queues_is_refused_with_its_place(tmp_path, text, rule):
    with pytest.raises(WorldError) as error:
        converted(tmp_path, text)
    assert rule in str(error.value)


def test_the_command_prints_manifests_and_names_what_is_left_out(tmp_path, capsys):
    (tmp_path / "queues.yaml").write_text(YUNIKORN)
    assert main(["queues", "import", str(tmp_path / "queues.yaml")]) == 0
    said = capsys.readouterr()
    kinds = {(one["apiVersion"], one["kind"]) for one in bounded_yaml.load_all(said.out)}
    assert kinds == {("muster.io/v1alpha1", "Queue")}
    assert len(said.err.splitlines()) == 4
    assert main(["queues", "import", "nowhere"]) == 2
