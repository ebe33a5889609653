"""Volumes of in-tree plugins: the names and labels of the CSI drivers that replace them."""

import pytest

from shared.model.cluster_objects import CSINode, PersistentVolume
from shared.model.objects import Requirement, SelectorTerm
from shared.model.volumes import AWS, AZURE, CINDER, GCE
from shared.scheduling.volumes.migration import (
    handle_of,
    is_migrated,
    migrated_affinity,
    volume_handle,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"


def term(**needs):
    keys = {"zone": ZONE, "region": REGION, "beta": BETA_ZONE, "old": BETA_REGION}
    names = {"gke": "topology.gke.io/zone", "ebs": "topology.ebs.csi.aws.com/zone"}
    return SelectorTerm(
        tuple(Requirement({**keys, **names}[key], "In", one) for key, one in needs.items())
    )


def volume(kind, *terms, **labels):
    pairs = {ZONE: labels.get("zone"), BETA_ZONE: labels.get("beta")}
    found = tuple(sorted((key, value) for key, value in pairs.items() if value is not None))
    return PersistentVolume(
        uid="v", name="v", in_tree=kind, handle="d", node_affinity=terms, labels=found
    )


@pytest.mark.parametrize(
    ("kind", "name", "zones", "handle"),
    [
        (AWS, "vol-1", "", "vol-1"),
        (AWS, "aws://eu-west-1a/vol-1", "", "vol-1"),
        (AWS, "aws:///vol-1", "", "vol-1"),
        (AWS, "aws://eu-west-1a/snap-1", "", ""),
        (AZURE, "/a/b", "", "/a/b"),
        (CINDER, "c", "", "c"),
        (GCE, "d", "", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        (GCE, "d", "eu-west-a", "projects/UNSPECIFIED/zones/eu-west-a/disks/d"),
        (GCE, "d", "eu-west-a__eu-west-b", "projects/UNSPECIFIED/regions/eu-west/disks/d"),
        (GCE, "d", "eu-west-a__eu-east-a", ""),
        (GCE, "d", "west__east", ""),
    ],
)
def test_a_disk_has_the_handle_of_its_driver(kind, name, zones, handle):
    assert handle_of(kind, name, zones) == handle


def test_the_older_label_says_where_a_volume_is():
    assert "/zones/b/" in volume_handle(volume(GCE, zone="a", beta="b"))
    assert "/zones/a/" in volume_handle(volume(GCE, zone="a"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (volume(GCE, term(zone=("a",))), (term(gke=("a",)),)),
        (volume(AWS, term(zone=("a",)), term(zone=("b",))), (term(ebs=("a",)), term(ebs=("b",)))),
        (volume(GCE, term(beta=("a",), old=("r",))), (term(gke=("a",), region=("r",)),)),
        (volume(GCE, term(old=("r",))), (term(old=("r",)),)),
        (volume(GCE, zone="b__a"), (term(gke=("a", "b")),)),
        (volume(GCE, term(region=("r",)), zone="a"), (term(region=("r",), gke=("a",)),)),
        (volume(GCE, beta="a"), (term(gke=("a",)),)),
        (volume(GCE), ()),
        (volume(AZURE, term(zone=("a",))), (term(zone=("a",)),)),
    ],
)
def test_where_a_driver_can_reach_a_volume(before, after):
    assert migrated_affinity(before) == after


def test_a_node_says_which_plugins_its_drivers_replace():
    says = CSINode(uid="n", name="n", migrated=("kubernetes.io/gce-pd",))
    assert is_migrated(GCE, says)
    assert not is_migrated(AWS, says)
    assert not is_migrated(GCE, None)
