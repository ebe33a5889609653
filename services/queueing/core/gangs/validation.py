"""What kube-scheduler asks of the members of a PodGroup before it tries them.

Source: frameworkForPodGroup of 1.36 and validatePodGroup of 1.37, schedule_one_podgroup.go. Members
that have a node are not looked at here.
"""

from collections.abc import Sequence

from services.queueing.core.state import Gang, QueueingState, Sig
from services.queueing.core.waiting.messages import is_pod_group
from shared.events.queueing import Members
from shared.model.columns import unpack
from shared.model.ids import PodId
from shared.model.release import V1_36, V1_37

_SAME = "all pods in a single pod group should have the same"
_POLICIES = ("PreemptLowerPriority", "Never")


def why_no_group(state: QueueingState, gang: Gang, members: Sequence[Members]) -> str:
    """Return in kube-scheduler's words why it would not try these members together; empty if it
    would.
    """
    version = state.config.compatibility
    if version < V1_36 or not (is_pod_group(gang) or gang.tree):
        return ""
    sigs = _in_order(state, members)
    for sig in sigs:
        problem = _of_one(sig, sigs[0], gang.group_priority, version)
        if problem:
            return f"{_SAME} {problem}"
    return ""


def _in_order(state: QueueingState, members: Sequence[Members]) -> list[Sig]:
    """Return the signatures in the order of their first pods: of highest priority, then oldest."""
    pods = state.pods

    def place(part: Members) -> tuple[int, int]:
        first = PodId(unpack(part.ids).item(0))
        return -state.sigs[part.sig].pod_priority, int(pods.seq[first - pods.base])

    return [state.sigs[part.sig] for part in sorted(members, key=place)]


def _of_one(sig: Sig, first: Sig, priority: int | None, version: str) -> str:
    if sig.scheduler != first.scheduler:
        return f'.spec.schedulerName set, got: "{sig.scheduler}" and "{first.scheduler}"'
    if version < V1_37:
        return ""
    if priority is not None and sig.pod_priority != priority:
        return f"priority as the pod group's priority, got {sig.pod_priority} and {priority}"
    if sig.never_preempts != first.never_preempts:
        policies = _POLICIES[sig.never_preempts], _POLICIES[first.never_preempts]
        return f"preemption policy, got {policies[0]} and {policies[1]}"
    return ""
