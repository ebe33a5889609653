"""What a pod says of its volumes, as far as it decides where the pod may run.

Names only: which claim that is, and which volume it has got, is looked up when somebody decides.
"""

from msgspec import Struct


class ClaimUse(Struct, frozen=True, omit_defaults=True, gc=False, tag="claim"):
    """A PersistentVolumeClaim in the pod's namespace. That of an ephemeral volume is made for one
    `pod`, and counts only while it belongs to the pod with the uid `owner`.
    """

    name: str
    pod: str = ""
    owner: str = ""


class Disk(Struct, frozen=True, omit_defaults=True, gc=False, tag="disk"):
    """A disk that the pod names itself: `kind` is the field of the volume, `name` the disk's. Of a
    Ceph image `pool` and `monitors` tell which cluster's it is.
    """

    kind: str
    name: str
    read_only: bool = False
    pool: str = ""
    monitors: tuple[str, ...] = ()


PodVolume = ClaimUse | Disk


class Choice(Struct, frozen=True, omit_defaults=True, array_like=True, gc=False):
    """What was chosen for a claim together with its pod's node: a `volume` that is there, or
    (empty) that one is made for the node. Uids, so that nothing is written to another of the name.
    """

    namespace: str
    claim: str
    claim_uid: str
    volume: str = ""
    volume_uid: str = ""


AWS, AZURE, CINDER = "awsElasticBlockStore", "azureDisk", "cinder"
GCE, ISCSI, RBD, PORTWORX = "gcePersistentDisk", "iscsi", "rbd", "portworxVolume"
