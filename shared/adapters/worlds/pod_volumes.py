"""The volumes of a pod that decide where it may run: claims, and disks that it names itself."""

from shared.adapters.worlds.fields import Fields
from shared.adapters.worlds.volume_objects import DISKS, MANAGED
from shared.model.volumes import AZURE, ISCSI, RBD, ClaimUse, Disk, PodVolume

POOL = "rbd"
NAMES = {**DISKS, ISCSI: "iqn", RBD: "image"}


def volumes_of(spec: Fields, pod: str, uid: str) -> tuple[PodVolume, ...]:
    """spec.volumes of a pod, in their order. All other kinds are passed over."""
    found = (_volume(one, pod, uid) for one in spec.children("volumes"))
    return tuple(one for one in found if one is not None)


def _volume(fields: Fields, pod: str, uid: str) -> PodVolume | None:
    if fields.has("persistentVolumeClaim"):
        return ClaimUse(fields.child("persistentVolumeClaim").required_text("claimName"))
    if fields.has("ephemeral"):
        return ClaimUse(f"{pod}-{fields.required_text('name')}", pod, uid)
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
