"""The classes of provisioning that groups name, and the requests of the cluster autoscaler
(ProvisioningRequest of autoscaling.x-k8s.io/v1): how they are named, marked and read.

Source: cluster-autoscaler/apis/provisioningrequest of the cluster autoscaler.
"""

import re

from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.volume_objects import identity
from shared.model.cluster_objects import ProvisioningRequest
from shared.model.groups.provisioning import PHASES, PROVISIONED

API_GROUP, VERSION = "autoscaling.x-k8s.io", "autoscaling.x-k8s.io/v1"
RESOURCE = "provisioningrequests"
CLASS_NAME = "muster.io/provisioning-class-name"
"""The annotation with which a group asks for nodes."""
MANAGED_BY, OWN = "app.kubernetes.io/managed-by", "muster"
"""The label of all that we make."""
GANG = "muster.io/gang"
"""The annotation that says for which gang it is made."""
NAME_MAX = 253
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def provisioning_class(annotations: Fields) -> str:
    """Return the class of provisioning that a group's annotations name; empty for none. Raises
    WorldError.
    """
    name = annotations.text(CLASS_NAME)
    if name and not (len(name) <= NAME_MAX and _NAME.fullmatch(name)):
        raise annotations.error(CLASS_NAME, f"{shown(name)} is not a name such as a.example.com")
    return name


def provisioning_request(document: Fields) -> ProvisioningRequest:
    """Return a request. Raises WorldError."""
    conditions = {one.text("type"): one for one in document.child("status").children("conditions")}
    true = [one for one in PHASES if one in conditions and _is_true(conditions[one])]
    phase = true[0] if true else ""
    # While the autoscaler tries, this condition says what the last try lacked.
    telling = conditions.get(phase if phase and phase != PHASES[-1] else PROVISIONED)
    return ProvisioningRequest(
        **identity(document),
        gang=document.child("metadata").child("annotations").required_text(GANG),
        class_name=document.child("spec").text("provisioningClassName"),
        phase=phase,
        message=_line(telling) if telling is not None else "",
    )


def _is_true(condition: Fields) -> bool:
    return condition.text("status") == "True"


def _line(condition: Fields) -> str:
    return " ".join(condition.lines("message").split())
