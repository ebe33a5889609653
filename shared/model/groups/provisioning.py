"""Requests to the cluster autoscaler for the nodes of a gang (ProvisioningRequest of
autoscaling.x-k8s.io/v1).
"""

from msgspec import Struct

from shared.model.ids import PodId

ACCEPTED, PROVISIONED = "Accepted", "Provisioned"
ENDS = ("Failed", "CapacityRevoked", "BookingExpired")
"""Conditions after which the autoscaler does nothing more for a request."""
PHASES = (*ENDS, PROVISIONED, ACCEPTED)
"""The first of these conditions that is true counts."""


class ProvisioningWrite(Struct, frozen=True, omit_defaults=True, gc=False):
    """Create the request `name` (NAMESPACE/NAME) for the gang `key`: nodes for so many (`counts`)
    pods like each of `samples`. With a `uid`: delete this request.
    """

    name: str
    key: str
    class_name: str = ""
    samples: tuple[PodId, ...] = ()
    counts: tuple[int, ...] = ()
    uid: str = ""


def request_name(key: str) -> str:
    """Return the name (NAMESPACE/NAME) of a gang's request, which users write into their pods: that
    of the group, or WORKLOAD.GROUP, or GROUP.SCHEDULER for a group of another scheduler.
    """
    namespace, _, name = key.partition("/")
    return f"{namespace}/{name.replace('/', '.').replace('@', '.')}"
