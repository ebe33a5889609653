"""In-tree volumes, as the CSI drivers that took over know them."""

import re

from msgspec import structs

from shared.model.cluster_objects import CSINode, PersistentVolume
from shared.model.objects import Requirement, SelectorTerm
from shared.model.volumes import AWS, AZURE, CINDER, GCE, PORTWORX

PLUGINS = {
    AWS: "kubernetes.io/aws-ebs",
    AZURE: "kubernetes.io/azure-disk",
    CINDER: "kubernetes.io/cinder",
    GCE: "kubernetes.io/gce-pd",
    PORTWORX: "kubernetes.io/portworx-volume",
}
DRIVERS = {
    AWS: "ebs.csi.aws.com",
    AZURE: "disk.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    GCE: "pd.csi.storage.gke.io",
    PORTWORX: PLUGINS[PORTWORX],
}
DRIVERS_BY_NODE = {PLUGINS[PORTWORX]: "pxd.portworx.com"}
"""The plugin whose volumes count as its driver's only on nodes that say so."""
PROVISIONERS = {PLUGINS[kind]: driver for kind, driver in DRIVERS.items()}
ZONE_KEYS = {
    AWS: "topology.ebs.csi.aws.com/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
    GCE: "topology.gke.io/zone",
}
"""The topology labels of these drivers."""
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONES_BETWEEN = "__"
"""The separator between several zones of one volume."""

_AWS_URL = re.compile(r"aws://[^/]*/+(vol-[^/]*)/*")


def handle_of(kind: str, name: str, zones: str = "") -> str:
    """Return the driver's handle of a disk; empty if no driver has one."""
    if kind == AWS and name.startswith("aws://"):
        found = _AWS_URL.fullmatch(name)
        return found[1] if found else ""
    if kind != GCE:
        return name
    several = zones.split(ZONES_BETWEEN)
    if len(several) == 1:
        return f"projects/UNSPECIFIED/zones/{zones or 'UNSPECIFIED'}/disks/{name}"
    regions = {zone.rpartition("-")[0] for zone in several}
    if len(regions) > 1 or any(zone.count("-") != 2 for zone in several):
        return ""
    return f"projects/UNSPECIFIED/regions/{regions.pop()}/disks/{name}"


def volume_handle(volume: PersistentVolume) -> str:
    """Return the driver's handle of an in-tree PersistentVolume."""
    labels = dict(volume.labels)
    return handle_of(volume.in_tree, volume.handle, labels.get(BETA_ZONE) or labels.get(ZONE) or "")


def is_migrated(kind: str, node: CSINode | None) -> bool:
    """Return whether the node's driver has taken over this kind of volumes."""
    return node is not None and PLUGINS.get(kind) in node.migrated


def migrated_affinity(volume: PersistentVolume) -> tuple[SelectorTerm, ...]:
    """Return where the driver can reach the volume: it names zones by its own label."""
    key = ZONE_KEYS.get(volume.in_tree)
    if key is None:
        return volume.node_affinity
    terms, labels = volume.node_affinity, dict(volume.labels)
    zone, region = _keys(terms, labels)
    if _has_values(terms, zone):
        terms = _renamed(terms, zone, key)
    elif zone in labels:
        zones = {part.strip() for part in labels[zone].split(ZONES_BETWEEN)} - {""}
        terms = _with_zones(terms, key, tuple(sorted(zones))) if zones else terms
    if region == BETA_REGION and _has_values(terms, BETA_REGION):
        return _renamed(terms, BETA_REGION, REGION)
    return terms


def _keys(terms: tuple[SelectorTerm, ...], labels: dict[str, str]) -> tuple[str, str]:
    """Return the labels by which the volume names its zone and region."""
    named = {need.key for term in terms for need in term.labels}
    for there in (named, labels):
        if ZONE in there:
            return ZONE, REGION
        if BETA_ZONE in there:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _has_values(terms: tuple[SelectorTerm, ...], key: str) -> bool:
    """Return whether a requirement on the label has a value, even an empty one."""
    return any(need.values for term in terms for need in term.labels if need.key == key)


def _renamed(terms: tuple[SelectorTerm, ...], old: str, new: str) -> tuple[SelectorTerm, ...]:
    return tuple(
        structs.replace(
            term,
            labels=tuple(
                structs.replace(need, key=new) if need.key == old else need for need in term.labels
            ),
        )
        for term in terms
    )


def _with_zones(
    terms: tuple[SelectorTerm, ...], key: str, zones: tuple[str, ...]
) -> tuple[SelectorTerm, ...]:
    need = Requirement(key, "In", zones)
    return tuple(
        structs.replace(term, labels=(*term.labels, need)) for term in terms or (SelectorTerm(),)
    )
