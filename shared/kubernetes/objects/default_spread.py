"""Services and controllers of manifests and cases, by which pods without constraints of their own
are spread (the rule is in shared/model/pod_rules/default_spread.py).
"""

from shared.kubernetes.objects.affinity import label_selector
from shared.kubernetes.objects.fields import Fields
from shared.model import cluster_objects as model
from shared.model.pod_rules.default_spread import CONTROLLERS, Spreader, owner_of

SERVICE = "Service"
SPREADING = (SERVICE, *CONTROLLERS)
DEPLOYMENT = "Deployment"


def revision_name(deployment: str) -> str:
    """Return the name of the ReplicaSet that a Deployment of a world would have made."""
    return f"{deployment}.1"


def spreader_of(document: Fields, metadata: Fields, namespace: str) -> Spreader:
    """Return an object of one of these kinds; for a Deployment, its ReplicaSet."""
    kind, spec = document.text("kind"), document.child("spec")
    if kind in (SERVICE, "ReplicationController"):
        pairs = tuple(sorted(spec.mapping("selector").items()))
        made = model.Service if kind == SERVICE else model.ReplicationController
        return made(**_identity(kind, metadata, namespace), selector=pairs)
    selector = model.LabelSelector(*label_selector(spec.child("selector")))
    meta = _identity(kind, metadata, namespace)
    if kind == DEPLOYMENT:
        meta |= {"name": revision_name(meta["name"])}
    selecting = model.StatefulSet if kind == "StatefulSet" else model.ReplicaSet
    return selecting(**meta, selector=selector)


def _identity(kind: str, metadata: Fields, namespace: str) -> dict[str, str]:
    name = metadata.required_text("name")
    uid = metadata.text("uid") or f"{kind.lower()}.{namespace}.{name}"
    return {"uid": uid, "name": name, "namespace": namespace}


def controller_of(metadata: Fields) -> str:
    """Return a pod's controller if its kind spreads pods, else an empty text."""
    for owner in metadata.children("ownerReferences"):
        if owner.flag("controller"):
            kind, version = owner.text("kind"), owner.text("apiVersion")
            return owner_of(kind, version, owner.required_text("name"))
    return ""
