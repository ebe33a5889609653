"""Fields that kubectl writes into objects."""

import json

import pytest

from shared.worlds.manifests import manifests_world
from tests.unit.worlds.manifests import controller, pod

NOTES = {"kubectl.kubernetes.io/last-applied-configuration": "{}\n"}


def annotated_template():
    made = controller("Deployment", "d")
    made["spec"]["template"]["metadata"]["annotations"] = NOTES
    return made


@pytest.mark.parametrize(
    "made", [pod() | {"metadata": {"name": "p", "annotations": NOTES}}, annotated_template()]
)
def test_annotations_have_any_number_of_lines(made, tmp_path):
    path = tmp_path / "in.json"
    path.write_text(json.dumps(made))
    (arrival,) = manifests_world([path]).arrivals
    assert arrival.pods.spec.requests == ()
