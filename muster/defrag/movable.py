"""Which pods of a cluster may be moved, by their objects, as the cluster autoscaler judges it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shared.kubernetes.objects.affinity import selects
from shared.model.objects import Budget
from shared.worlds.arrivals import Pod

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
STATIC = "kubernetes.io/config.mirror"
CRITICAL_PRIORITY = 2_000_000_000
"""From here on pods are critical to the system (scheduling.SystemCriticalPriority)."""
TAINT = "muster.io/defrag"
"""The nodes that a plan empties have this taint while it is carried out."""
Object = Mapping[str, Any]


def controller_of(pod: Object) -> Mapping[str, Any]:
    """Return the owner reference of the pod's controller, empty without one."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((one for one in owners if one.get("controller")), {})


def taints_of(node: Object) -> Sequence[Object]:
    """Return the taints of a node."""
    found: Sequence[Object] = node["spec"].get("taints") or () if node.get("spec") else ()
    return found


def with_our_taint(objects: Iterable[Object]) -> list[str]:
    """Return the names of the nodes that have our taint."""
    return [
        one["metadata"]["name"]
        for one in objects
        if one.get("kind") == "Node" and any(taint["key"] == TAINT for taint in taints_of(one))
    ]


def why_it_stays(
    pod: Pod, document: Object, budgets: Sequence[Budget], priority_max: int | None
) -> str:
    """Return why the pod must not be moved, empty if it may. `priority_max`: that of the pod which
    is to get the room; None: any.
    """
    priority = pod.spec.priority
    if pod.terminating:
        return "is terminating"
    if pod.gang:
        return f"is a member of gang {pod.gang}"
    if priority >= CRITICAL_PRIORITY:
        return "is critical to the system"
    if priority_max is not None and priority > priority_max:
        return "has a higher priority"
    return _of_object(document) or _of_budgets(pod, budgets)


def _of_object(document: Object) -> str:
    annotations = document["metadata"].get("annotations") or {}
    controller = controller_of(document)
    safe = annotations.get(SAFE_TO_EVICT, "")
    if STATIC in annotations or controller.get("kind") == "Node":
        return "is a static pod"
    if not controller:
        return "has no controller that makes it again"
    if controller.get("kind") == "DaemonSet":
        return "is of a DaemonSet"
    if safe == "false":
        return f"has {SAFE_TO_EVICT}: false"
    if annotations.get(DO_NOT_DISRUPT) == "true":
        return f"has {DO_NOT_DISRUPT}: true"
    if safe != "true" and any("emptyDir" in one or "hostPath" in one for one in _volumes(document)):
        return f"has local storage, and not {SAFE_TO_EVICT}: true"
    if document["spec"].get("resourceClaims"):
        return "has resource claims"
    if any(_tolerates(one) for one in document["spec"].get("tolerations") or ()):
        return "tolerates all taints"
    return ""


def _volumes(document: Object) -> Sequence[Object]:
    found: Sequence[Object] = document["spec"].get("volumes") or ()
    return found


def _tolerates(toleration: Object) -> bool:
    """Return whether a pod with it could come back to a node with our taint."""
    effect, key = toleration.get("effect") or "NoSchedule", toleration.get("key")
    is_all = not key and toleration.get("operator") == "Exists"
    return effect == "NoSchedule" and (is_all or key == TAINT)


def _of_budgets(pod: Pod, budgets: Sequence[Budget]) -> str:
    covering = [
        one
        for one in budgets
        if pod.labels
        and one.namespace == pod.namespace
        and selects(dict(pod.labels), one.match_labels, one.match_expressions)
    ]
    if len(covering) > 1:
        return "has several budgets, which the Eviction API refuses"
    if covering and covering[0].allowed < 1:
        return f"budget {covering[0].name} allows no disruption"
    return ""
