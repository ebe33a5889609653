"""Whether kube-scheduler tries the members of a PodGroup together, a second time."""

from collections.abc import Collection

from shared.model.objects import PodSpec
from shared.model.release import V1_36, V1_37

NO_GROUP = "all pods in a single pod group should have the same "
"""What the message of members that differ begins with."""


def agree(version: str, key: str, priority: int | None, members: Collection[PodSpec]) -> bool:
    """Return whether a kube-scheduler of this version tries these pods as the gang `key`, whose
    PodGroup has this priority. It only asks groups of scheduling.k8s.io.
    """
    namespace, _, name = key.partition("/")
    if not namespace or not name or "/" in name or "@" in name or version < V1_36:
        return True
    if len({spec.scheduler for spec in members}) > 1:
        return False
    if version < V1_37:
        return True
    has_its = priority is None or all(spec.priority == priority for spec in members)
    return has_its and len({spec.never_preempts for spec in members}) <= 1
