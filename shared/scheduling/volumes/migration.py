"""Volumes of plugins that Kubernetes had itself, as the CSI drivers that took over know them."""

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
"""Of a plugin whose volumes count as its driver's only on nodes that say so, and nowhere else."""
PROVISIONERS = {PLUGINS[kind]: driver for kind, driver in DRIVERS.items()}
ZONE_KEYS = {
    AWS: "topology.ebs.csi.aws.com/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
    GCE: "topology.gke.io/zone",
}
"""The labels that nodes have from these drivers."""
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONES_BETWEEN = "__"
"""What stands between several zones of one volume."""

_AWS_URL = re.compile(r"aws://[^/]*/+(vol-[^/]*)/*")


def handle_of(kind: str, name: str, zones: str = "") -> str:
    """As what its driver knows a disk; empty where no driver would."""
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
    """The same of a PersistentVolume of such a plugin."""
    labels = dict(volume.labels)
    return handle_of(volume.in_tree, volume.handle, labels.get(BETA_ZONE) or labels.get(ZONE) or "")


def is_migrated(kind: str, node: CSINode | None) -> bool:
    """Whether the node says that a driver has the volumes of this kind's plugin."""
    return node is not None and PLUGINS.get(kind) in node.migrated


def migrated_affinity(volume: PersistentVolume) -> tuple[SelectorTerm, ...]:
    """Where the driver can reach the volume: zones are told by a label of its own."""
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
    """The labels by which the volume names its zone and its region."""
    named = {need.key for term in terms for need in term.labels}
    for there in (named, labels):
        if ZONE in there:
            return ZONE, REGION
        if BETA_ZONE in there:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _has_values(terms: tuple[SelectorTerm, ...], key: str) -> bool:
    """Whether some rule about the label names a value, be it an empty one."""
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
