"""Converts pods of a live API to columns: equal pods together, unchanged pods left out.

It reports the pods that wait for our schedulers and every pod that has a node, whoever bound it.
Ingest decides what follows from them.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from shared.events.base import Event
from shared.events.observed import InputRejected, PodsDeletedSeen, PodsSeen, PodsStartedSeen
from shared.extenders.values import named
from shared.kubernetes.objects.groups.other_schedulers import IN_ANNOTATIONS, groups_named
from shared.kubernetes.objects.pod_templates import Template
from shared.kubernetes.objects.pod_volumes import has_own_claims, volumes_of_pod
from shared.kubernetes.objects.structs import PodMeta, RawPod
from shared.kubernetes.objects.times import time_ms
from shared.kubernetes.watching.pod_groups import Groups
from shared.kubernetes.watching.refused_pods import Refusals
from shared.kubernetes.watching.resized_pods import resized
from shared.kubernetes.watching.templates import Known, KnownLabels, Labels, Templates, raw_json
from shared.model.columns import join, pack
from shared.model.objects import PodSpec
from shared.model.pod_rules.pod_claims import has_templates, of_pod
from shared.model.release import DEFAULT_RELEASE, Release
from shared.ports.cluster import PodRef

FINISHED = ("Succeeded", "Failed")
PREEMPTED = b'"PreemptionByScheduler"'
"""In the conditions of a pod that a scheduler evicts."""
_Reported = tuple[Template, Labels, str, int]
NO_GANG = ("", 0, "")
LEAVES, STARTED = 1, 2
"""Bits for what else was reported of a pod with a node."""


class _Column(msgspec.Struct, gc=False):
    """Equal pods."""

    known: Known
    spec: PodSpec
    namespace: str
    labels: KnownLabels
    gang: str
    gang_count: int
    terminating: bool
    owner: str
    uids: list[str] = []
    names: list[str] = []
    revisions: list[int] = []
    nodes: list[str] = []


class Pods:
    """Gathers pods until `drain` and remembers what it reported of pods with a node."""

    def __init__(
        self,
        schedulers: frozenset[str],
        groups: Groups,
        refusals: Refusals,
        written: Mapping[str, int] = MappingProxyType({}),
        release: Release = DEFAULT_RELEASE,
    ) -> None:
        """`schedulers` are the spec.schedulerName values of our pods; empty = all. `written` has
        the revisions made by our own writes of conditions: pods at such a revision are left out.
        """
        self._schedulers, self._groups, self._refusals = schedulers, groups, refusals
        self._written = written
        self._refused: dict[str, bool] = {}
        self._templates = Templates(release)
        self._columns: dict[tuple[object, ...], _Column] = {}
        self._inside: dict[str, bool] = {}
        # (Finished, lost) -> pods, as in PodsDeletedSeen.
        self._gone: dict[tuple[bool, bool], list[str]] = {}
        self._events: list[Event] = []
        self._reported: dict[str, _Reported] = {}
        self._started: dict[str, int] = {}
        self._is_urgent = False

    def forget(self) -> None:
        """Report everything again: what was gathered or reported may have been lost."""
        for held in (self._columns, self._inside, self._reported, self._started):
            held.clear()
        self._gone.clear()
        self._events.clear()

    def seen(self, pod: RawPod) -> None:
        """Read a pod that was added or changed. Raises msgspec.ValidationError or ValueError for a
        bad one.
        """
        meta, spec = pod.metadata, pod.spec
        node = spec.nodeName or ""
        scheduler = spec.schedulerName
        if not node and self._schedulers and scheduler not in self._schedulers:
            return
        if pod.status.phase in FINISHED or (meta.deletionTimestamp and not node):
            self.gone(pod)
            return
        if not node and self._written.get(meta.uid) == int(meta.resourceVersion):
            return
        labels = self._templates.labels(meta.labels)
        shown = self._templates.shown(meta, labels)
        known = self._templates.of(spec, labels, shown, resized(pod) if node else b"")
        if node:
            start, before = pod.status.startTime, self._reported.get(meta.uid)
            flags = LEAVES * bool(meta.deletionTimestamp) | STARTED * bool(start)
            reported = (known.template, labels.labels, node, flags)
            if before == reported:
                return
            self._reported[meta.uid] = reported
            if start and not (before and before[-1] & STARTED):
                self._started[meta.uid] = time_ms(start)
            if before and (*before[:-1], before[-1] | STARTED) == reported:
                return  # nothing else changed
            self._refusals.forget(meta.uid)
        elif known.refused is not None:
            self._refuse(pod, *known.refused)
            return
        self._add(pod, known, labels, node)

    def _refuse(self, pod: RawPod, field: str, rule: str) -> None:
        """Refuse a pod of ours that we cannot schedule: once in the journal, and in its condition.
        While the pod has scheduling gates the API server's own condition stands.
        """
        meta = pod.metadata
        if meta.uid not in self._refused:
            self._refused[meta.uid] = True
            self._events.append(InputRejected(f"Pod {meta.namespace}/{meta.name}", field, rule))
        if not raw_json(pod.spec.schedulingGates):
            ref = PodRef(meta.uid, meta.namespace, meta.name)
            self._refusals.add(ref, f"{field}: {rule}")

    def _add(self, pod: RawPod, known: Known, labels: KnownLabels, node: str) -> None:
        meta = pod.metadata
        revision = int(meta.resourceVersion)
        if meta.uid in self._inside:
            self._flush()
        gang, gang_count, part = self._gang_of(meta, known, labels)
        terminating = bool(meta.deletionTimestamp)
        owner = self._templates.owner(meta.ownerReferences)
        spec, gang_key = known.template.spec, ""
        if has_own_claims(spec.volumes):
            volumes = volumes_of_pod(spec.volumes, meta.name, meta.uid)
            spec, gang_key = msgspec.structs.replace(spec, volumes=volumes), meta.uid
        if has_templates(spec.claims):
            claims = of_pod(spec.claims, _made(pod), meta.name, meta.uid)
            spec, gang_key = msgspec.structs.replace(spec, claims=claims), meta.uid
        is_ours = not self._schedulers or pod.spec.schedulerName in self._schedulers
        self._is_urgent |= not (node and is_ours) or terminating
        if is_ours:
            named_spec = named(spec, meta.namespace, meta.name)
            spec, gang_key = named_spec, gang_key if named_spec is spec else meta.uid
        like = (known.number, labels.number, meta.namespace, gang, gang_count, terminating, owner)
        key = (*like, bool(node), gang_key, part)
        column = self._columns.get(key)
        if column is None:
            spec = msgspec.structs.replace(spec, part=part) if part else spec
            identity = (known, spec, meta.namespace, labels, gang, gang_count, terminating, owner)
            column = _Column(*identity, [], [], [], [])
            self._columns[key] = column
        self._inside[meta.uid] = True
        column.uids.append(meta.uid)
        column.names.append(meta.name)
        column.revisions.append(revision)
        if node:
            column.nodes.append(node)

    def _gang_of(self, meta: PodMeta, known: Known, labels: KnownLabels) -> tuple[str, int, str]:
        """Return the key of the pod's gang, minCount if that has no object, and the pod's part of
        it. A group of scheduling.k8s.io counts before others.
        """
        ref = known.template.ref
        if ref is None and (labels.names_group or IN_ANNOTATIONS in bytes(meta.annotations)):
            annotations = self._templates.labels(meta.annotations)
            named_groups = groups_named(dict(labels.labels), dict(annotations.labels))
            ref = next(filter(self._groups.is_read, named_groups), None)
        key = self._groups.gang_of(meta.namespace, ref) if ref is not None else ""
        if not key or ref is None:
            return NO_GANG
        return key, ref.min_count, self._groups.part_of(key, labels.labels) or ref.part

    def gone(self, pod: RawPod) -> None:
        """Read a pod that was deleted, or that finished and holds nothing."""
        uid = pod.metadata.uid
        node, scheduler = pod.spec.nodeName, pod.spec.schedulerName
        if not node and self._schedulers and scheduler not in self._schedulers:
            return
        if uid in self._inside:
            self._flush()
        self._reported.pop(uid, None)
        self._started.pop(uid, None)
        self._refused.pop(uid, None)
        self._refusals.forget(uid)
        self._gone.setdefault(_end_of(pod), []).append(uid)
        self._is_urgent = True

    def reject(self, what: str, field: str, rule: str) -> None:
        """Reject an object, in the order of arrival."""
        self._events.append(InputRejected(what, field, rule))

    def is_urgent(self) -> bool:
        """Return whether anything gathered is more than a pod of ours that has got a node."""
        return self._is_urgent

    def drain(self) -> list[Event]:
        """Return the gathered events; for each pod they are in the order of its changes."""
        self._flush()
        self._is_urgent = False
        events, self._events = self._events, []
        return events

    def _flush(self) -> None:
        for column in self._columns.values():
            template = column.known.template
            self._events.append(
                PodsSeen(
                    spec=column.spec,
                    uids=join(column.uids),
                    names=join(column.names),
                    revisions=pack(column.revisions),
                    namespace=column.namespace,
                    labels=column.labels.labels,
                    nodes=join(column.nodes),
                    gang=column.gang,
                    gang_count=column.gang_count,
                    gated=template.gated,
                    terminating=column.terminating,
                    owner=column.owner,
                )
            )
        if self._started:
            starts_ms = pack(self._started.values())
            self._events.append(PodsStartedSeen(join(self._started), starts_ms))
            self._started.clear()
        for (finished, lost), uids in sorted(self._gone.items()):
            self._events.append(PodsDeletedSeen(join(uids), finished, lost))
        self._gone.clear()
        self._columns.clear()
        self._inside.clear()


def _end_of(pod: RawPod) -> tuple[bool, bool]:
    """Return whether a pod finished by itself, and whether another may come in its place."""
    is_deleted = bool(pod.metadata.deletionTimestamp)
    is_evicted = PREEMPTED in bytes(pod.status.conditions)
    return not is_deleted, (is_deleted or pod.status.phase == "Failed") and not is_evicted


class _ClaimStatus(msgspec.Struct):
    name: str = ""
    resourceClaimName: str | None = None


_claim_statuses = msgspec.json.Decoder(list[_ClaimStatus])


def _made(pod: RawPod) -> dict[str, str]:
    """Return the claims made for a pod, by the names of their uses; empty where none was needed.
    Raises msgspec.ValidationError.
    """
    raw = bytes(pod.status.resourceClaimStatuses)
    found = _claim_statuses.decode(raw) if raw not in (b"", b"null") else []
    return {one.name: one.resourceClaimName or "" for one in found}
