"""The volumes of a pod that restrict where it may run: claims, and disks that it names itself."""

from msgspec.structs import replace

from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.volume_objects import DISKS, MANAGED
from shared.model.volumes import AZURE, ISCSI, RBD, ClaimUse, Disk, PodVolume

POOL = "rbd"
ITS_OWN = "*"
"""Stands for the pod's name in a template: the claim is made for each of its pods."""
NAMES = {**DISKS, ISCSI: "iqn", RBD: "image"}


def volumes_of(spec: Fields) -> tuple[PodVolume, ...]:
    """Return spec.volumes of a template in order. Other kinds of volumes are ignored."""
    found = (_volume(one) for one in spec.children("volumes"))
    return tuple(one for one in found if one is not None)


def has_own_claims(volumes: tuple[PodVolume, ...]) -> bool:
    """Return whether each pod of a template has claims of its own."""
    return any(isinstance(one, ClaimUse) and one.pod == ITS_OWN for one in volumes)


def volumes_of_pod(volumes: tuple[PodVolume, ...], pod: str, uid: str) -> tuple[PodVolume, ...]:
    """Return a template's volumes with one pod's claim names."""
    return tuple(
        replace(one, name=f"{pod}-{one.name}", pod=pod, owner=uid)
        if isinstance(one, ClaimUse) and one.pod == ITS_OWN
        else one
        for one in volumes
    )


def _volume(fields: Fields) -> PodVolume | None:
    if fields.has("persistentVolumeClaim"):
        return ClaimUse(fields.child("persistentVolumeClaim").required_text("claimName"))
    if fields.has("ephemeral"):
        return ClaimUse(fields.required_text("name"), ITS_OWN)
    for kind, key in NAMES.items():
        if fields.has(kind):
            return _disk(fields.child(kind), kind, key)
    return None


def _disk(fields: Fields, kind: str, key: str) -> Disk:
    is_rbd = kind == RBD
    if kind == AZURE and fields.text("kind").lower() != MANAGED:
        raise fields.error("kind", "must be Managed: no driver has disks of other kinds")
    return Disk(
        kind=kind,
        name=fields.required_text(key),
        read_only=fields.flag("readOnly"),
        pool=(fields.text("pool") or POOL) if is_rbd else "",
        monitors=tuple(sorted(set(fields.texts("monitors")))) if is_rbd else (),
    )
