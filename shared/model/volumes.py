"""A pod's volumes, as far as they decide where it may run.

Names only: claims and their volumes are looked up at each decision.
"""

from msgspec import Struct


class ClaimUse(Struct, frozen=True, omit_defaults=True, gc=False, tag="claim"):
    """A PersistentVolumeClaim in the pod's namespace. An ephemeral volume's claim is made for one
    `pod`, and counts only while it belongs to the pod with the uid `owner`.
    """

    name: str
    pod: str = ""
    owner: str = ""


class Disk(Struct, frozen=True, omit_defaults=True, gc=False, tag="disk"):
    """A disk that the pod names itself: `kind` is the field of the volume, `name` the disk's name.
    For a Ceph image `pool` and `monitors` identify its cluster.
    """

    kind: str
    name: str
    read_only: bool = False
    pool: str = ""
    monitors: tuple[str, ...] = ()


PodVolume = ClaimUse | Disk


class Choice(Struct, frozen=True, omit_defaults=True, array_like=True, gc=False):
    """The choice for a claim with its pod's node: an existing `volume`, or (empty) one to be
    provisioned for the node. Uids, so that no other object of the name is written.
    """

    namespace: str
    claim: str
    claim_uid: str
    volume: str = ""
    volume_uid: str = ""


AWS, AZURE, CINDER = "awsElasticBlockStore", "azureDisk", "cinder"
GCE, ISCSI, RBD, PORTWORX = "gcePersistentDisk", "iscsi", "rbd", "portworxVolume"
