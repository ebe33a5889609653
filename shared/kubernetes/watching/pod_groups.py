"""Pod groups as gangs: which gang keys exist, and which events describe them.

In 1.35 groups are parts of a Workload. A pod names a group of a workload and perhaps a replica of
it; each replica is a gang of its own and is known only from its pods. From 1.36 on each group is an
object. A group with the basic policy gates nothing. Groups of other schedulers are objects, too
(shared/kubernetes/objects/groups/other_schedulers.py).
"""

from shared.events.base import Event
from shared.events.observed import GangsDeletedSeen, GangsSeen
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.groups.other_schedulers import GroupKind, name_with_kind
from shared.kubernetes.objects.groups.pod_groups import (
    WORKLOAD_VERSION,
    Group,
    group_of,
    groups_of,
)
from shared.kubernetes.objects.pod_templates import WorkloadRef
from shared.kubernetes.objects.structs import RawGroup
from shared.model.columns import join
from shared.model.objects import Gang


class Groups:
    """Pod groups by `namespace/workload/group`, `namespace/group` or `namespace/group@scheduler`,
    and the keys pods name.
    """

    def __init__(self) -> None:
        """Start without groups, and without groups of other schedulers."""
        # Kinds of other schedulers that the server has.
        self.others: dict[str, GroupKind] = {}
        # Whether PodGroups may be in CompositePodGroups.
        self.composites = False
        self._groups: dict[str, Group] = {}
        self._keys: dict[str, dict[str, bool]] = {}
        self._of_workload: dict[str, tuple[str, ...]] = {}
        self._news: list[Gang] = []

    def gang_of(self, namespace: str, ref: WorkloadRef) -> str:
        """Return the key of a pod's gang; empty when its group gates nothing."""
        path = f"{namespace}/{ref.workload}/{ref.group}".replace("//", "/")
        if ref.min_count:
            return path
        group = self._groups.get(path)
        if group is not None and not group.is_gang:
            return ""
        key = ref.key(namespace) if ref.workload else path
        keys = self._keys.setdefault(path, {})
        if key not in keys:
            keys[key] = True
            if group is not None and key != path:
                self._news.append(group.gang(key))
        return key

    def part_of(self, key: str, labels: tuple[tuple[str, str], ...]) -> str:
        """Return the part that a gang's group gives a pod, as the group is now; empty for none."""
        group = self._groups.get(key)
        return group.part(dict(labels)) if group is not None and group.parts else ""

    def news(self) -> list[Event]:
        """Return events for the gangs that became known through their pods since the last call."""
        gangs, self._news = self._news, []
        return [GangsSeen(tuple(gangs))] if gangs else []

    def is_read(self, ref: WorkloadRef) -> bool:
        """Return whether groups of this kind are read; those without objects always are."""
        return bool(ref.min_count) or ref.group.rpartition("@")[2] in self.others

    def forget(self, kind: str = "") -> None:
        """Forget the groups of a kind, but not the keys that pods name."""
        for owner in [one for one in self._of_workload if one.partition("@")[2] == kind]:
            for path in self._of_workload.pop(owner):
                del self._groups[path]

    def workload(self, raw: RawGroup) -> list[Event]:
        """Return the events of a workload that was added or changed. Raises WorldError."""
        meta = raw.metadata
        what = f"Workload {meta.namespace}/{meta.name}"
        document = {"apiVersion": WORKLOAD_VERSION, "kind": "Workload", "spec": raw.spec}
        metadata = Fields(what, "metadata", {"annotations": meta.annotations or {}})
        groups = groups_of(metadata, Fields(what, "", document))
        paths = {f"{meta.namespace}/{meta.name}/{name}": group for name, group in groups.items()}
        owner = f"{meta.namespace}/{meta.name}"
        return self._set(owner, paths)

    def pod_group(self, raw: RawGroup) -> list[Event]:
        """Return the events of a PodGroup that was added or changed. Raises WorldError."""
        meta = raw.metadata
        owner = f"{meta.namespace}/{meta.name}"
        what = f"PodGroup {owner}"
        spec = Fields(what, "spec", raw.spec)
        group = group_of(_metadata(what, raw), spec, composites=self.composites)
        return self._set(owner, {owner: group})

    def other_group(self, kind: GroupKind, raw: RawGroup) -> list[Event]:
        """Return the events of a group of another scheduler. Raises WorldError."""
        what = f"{kind.source} {raw.metadata.namespace}/{raw.metadata.name}"
        path = _path(raw, kind)
        group = kind.read(_metadata(what, raw), Fields(what, "spec", raw.spec))
        return self._set(path, {path: group})

    def other_group_gone(self, kind: GroupKind, raw: RawGroup) -> list[Event]:
        """Return the events of a deleted group of another scheduler."""
        return self._drop(list(self._of_workload.pop(_path(raw, kind), ())))

    def _set(self, owner: str, paths: dict[str, Group]) -> list[Event]:
        """Replace the groups of an owner and return the events."""
        lost = [path for path in self._of_workload.get(owner, ()) if path not in paths]
        events = self._drop(lost)
        self._of_workload[owner] = tuple(paths)
        self._groups.update(paths)
        gangs = [group.gang(key) for path, group in paths.items() for key in self._gang_keys(path)]
        return [*events, GangsSeen(tuple(gangs))] if gangs else events

    def workload_gone(self, raw: RawGroup) -> list[Event]:
        """Return the events of a deleted workload."""
        owner = f"{raw.metadata.namespace}/{raw.metadata.name}"
        return self._drop(list(self._of_workload.pop(owner, ())))

    def _gang_keys(self, path: str) -> list[str]:
        """Return the keys that have gangs; for a basic group, those that pods named too early."""
        keys = list(self._keys.get(path, ()))
        if self._groups[path].is_gang and path not in keys:
            keys.append(path)
        return keys

    def _drop(self, paths: list[str]) -> list[Event]:
        keys = [key for path in paths for key in self._gang_keys(path)]
        for path in paths:
            del self._groups[path]
        return [GangsDeletedSeen(join(keys))] if keys else []


def _metadata(what: str, raw: RawGroup) -> Fields:
    meta = raw.metadata
    values = {
        "annotations": meta.annotations or {},
        "creationTimestamp": meta.creationTimestamp or "",
    }
    return Fields(what, "metadata", values)


def _path(raw: RawGroup, kind: GroupKind) -> str:
    return f"{raw.metadata.namespace}/{name_with_kind(raw.metadata.name, kind.name)}"
