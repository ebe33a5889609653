"""StatefulSets: claims are made from templates, separate ones for each pod."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.kubernetes.objects.errors import WorldError
from shared.model.cluster_objects import PersistentVolumeClaim
from shared.model.volumes import ClaimUse
from shared.model.world import World
from shared.worlds.manifests import manifests_world
from tests.unit.worlds.manifests import NODE, controller


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., World]:
    def reading(*objects: dict[str, Any]) -> World:
        path = tmp_path / "all.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        return manifests_world([path])

    return reading


def template(name: str = "data", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"storageClassName": "fast", **spec}}


def stateful(*templates: dict[str, Any], **more: Any) -> dict[str, Any]:
    return controller("StatefulSet", "db", replicas=2, volumeClaimTemplates=[*templates], **more)


def claims(world: World) -> dict[str, PersistentVolumeClaim]:
    return {one.name: one for one in world.objects if isinstance(one, PersistentVolumeClaim)}


def test_each_pod_has_claims_of_its_own(read):
    world = read(NODE, stateful(template(), template("log", accessModes=["ReadWriteOnce"])))
    volumes = [one.pods.spec.volumes for one in world.arrivals]
    assert volumes == [
        (ClaimUse("data-db-0"), ClaimUse("log-db-0")),
        (ClaimUse("data-db-1"), ClaimUse("log-db-1")),
    ]
    found = claims(world)
    assert list(found) == ["data-db-0", "log-db-0", "data-db-1", "log-db-1"]
    assert len({one.uid for one in found.values()}) == 4
    assert {one.namespace for one in found.values()} == {"default"}
    one = found["log-db-1"]
    assert (one.storage_class, one.access_modes) == ("fast", ("ReadWriteOnce",))


def test_an_existing_claim_is_kept(read):
    there = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-db-1", "uid": "there"},
        "spec": {"volumeName": "disk"},
    }
    found = claims(read(NODE, stateful(template()), there))
    assert len(found) == 2
    assert (found["data-db-1"].uid, found["data-db-1"].volume) == ("there", "disk")


def test_the_claim_takes_the_place_of_a_volume_of_its_name(read):
    owner = stateful(template())
    named = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("data", "other")
    ]
    owner["spec"]["template"]["spec"]["volumes"] = named
    first = read(NODE, owner).arrivals[0].pods
    assert first.spec.volumes == (ClaimUse("data-db-0"), ClaimUse("other"))


@pytest.mark.parametrize(
    ("templates", "said"),
    [
        ([template(""), template()], "spec.volumeClaimTemplates[0].metadata.name: is required"),
        ([template(), template()], "volumeClaimTemplates[1].metadata.name: 'data' is the name of"),
        ([template() | {"x": 1}], "spec.volumeClaimTemplates[0].x: is an unknown field"),
        (
            [template(resources={"requests": {"storage": "much"}})],
            "spec.volumeClaimTemplates[0].spec.resources.requests.storage: ",
        ),
    ],
)
def test_a_bad_template_is_named(read, templates, said):
    with pytest.raises(WorldError) as caught:
        read(NODE, stateful(*templates))
    assert said in str(caught.value)
