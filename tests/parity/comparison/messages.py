"""The messages of kube-scheduler's filters and gates (section 1.5 of kube-scheduler.md): the kind
of case that draws each one, or the reason why none can. Some are only a part of the message,
because names surround it.
"""

from collections.abc import Iterator

from tests.parity.generators.kinds import PLAIN, RARE
from tests.parity.generators.volumes import IN_USE

CONFIGS, VOLUMES = "configs", "volumes"
DRAWN: dict[str, str] = {
    "node(s) were unschedulable": PLAIN,
    "node(s) didn't match the requested node name": RARE,
    "node(s) had untolerated taint(s)": PLAIN,
    "node(s) didn't match Pod's node affinity/selector": PLAIN,
    "node(s) didn't match scheduler-enforced node affinity": CONFIGS,
    "pod affinity terms conflict": PLAIN,
    "node(s) didn't have free ports for the requested pod ports": PLAIN,
    "Too many pods": PLAIN,
    "Insufficient cpu": PLAIN,
    "Insufficient memory": PLAIN,
    "Insufficient ephemeral-storage": PLAIN,
    "Insufficient hugepages-2Mi": PLAIN,
    "Insufficient example.com/widget": PLAIN,
    "Insufficient nvidia.com/gpu": PLAIN,
    "node(s) had no available disk": VOLUMES,
    IN_USE: VOLUMES,
    "node(s) exceed max volume count": VOLUMES,
    "node(s) didn't find available persistent volumes to bind": VOLUMES,
    "node(s) didn't match PersistentVolume's node affinity": VOLUMES,
    "node(s) did not have enough free storage": VOLUMES,
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)": VOLUMES,
    "pod has unbound immediate PersistentVolumeClaims": VOLUMES,
    'persistentvolumeclaim "nobody" not found': VOLUMES,
    "is being deleted": VOLUMES,
    "bound to non-existent persistentvolume": VOLUMES,
    "waiting for ephemeral volume controller to create the persistentvolumeclaim": VOLUMES,
    "node(s) had no available volume zone": VOLUMES,
    "node(s) didn't match pod topology spread constraints (missing required label)": PLAIN,
    "node(s) didn't match pod topology spread constraints": PLAIN,
    "node(s) didn't match pod affinity rules": PLAIN,
    "node(s) didn't match pod anti-affinity rules": PLAIN,
    "node(s) didn't satisfy existing pods anti-affinity rules": PLAIN,
    "waiting for scheduling gates: [": RARE,
}
NOT_DRAWN: dict[str, str] = {
    "node(s) had taints that the pod didn't tolerate": "a constant that no filter says in 1.35",
    "CSI driver is not installed on the node": "gate VolumeLimitScaling, off in 1.35",
    "node(s) didn't match Pod's required features": "gate NodeDeclaredFeatures, off in 1.35",
    "resourceclaim not available on the node": "a program of its own: tests.parity.claims",
    "cannot allocate all claims": "a program of its own: tests.parity.claims",
    "resourceclaim in use": "a program of its own: tests.parity.claims",
}


def of_kind(kind: str) -> Iterator[str]:
    """Yield the messages that cases of one kind draw."""
    yield from (message for message, drawn in DRAWN.items() if drawn == kind)
