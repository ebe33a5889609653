"""Objects of devices in manifests."""

import yaml

from shared.model.claims import DeviceTaint, DeviceTaintRule
from shared.model.cluster_objects import TaintRuleObject
from shared.worlds.manifests import manifests_world
from tests.unit.worlds.manifests import NODE

RULE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "bad"},
    "spec": {"deviceSelector": {"pool": "p"}, "taint": {"key": "k", "effect": "NoExecute"}},
}


def test_taint_rules_are_objects_of_the_world(tmp_path):
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all([NODE, RULE]))
    (found,) = manifests_world([path]).objects
    assert isinstance(found, TaintRuleObject)
    assert found.value == DeviceTaintRule(DeviceTaint("k", "", "NoExecute"), pool="p")
    assert found.namespace == ""
