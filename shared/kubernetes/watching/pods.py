"""Pods of a live API to columns: equal ones together, unchanged ones left out.

Told are pods that wait for our schedulers and pods that have a node, whoever bound them. What
becomes of them is ingest's business.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from shared.events.base import Event
from shared.events.observed import InputRejected, PodsDeletedSeen, PodsSeen, PodsStartedSeen
from shared.extenders.values import named
from shared.kubernetes.objects.pod_templates import Template
from shared.kubernetes.objects.pod_volumes import has_own_claims, volumes_of_pod
from shared.kubernetes.objects.structs import RawPod
from shared.kubernetes.objects.times import time_ms
from shared.kubernetes.watching.pod_groups import Groups
from shared.kubernetes.watching.refused_pods import Refusals
from shared.kubernetes.watching.resized_pods import resized
from shared.kubernetes.watching.templates import Known, KnownLabels, Labels, Templates, raw_json
from shared.model.columns import join, pack
from shared.model.objects import PodSpec
from shared.ports.cluster import PodRef

FINISHED = ("Succeeded", "Failed")
_Told = tuple[Template, Labels, str, int]
LEAVES, STARTED = 1, 2
"""What was told of a pod with a node besides: bits."""


class _Column(msgspec.Struct, gc=False):
    """Pods that are alike."""

    known: Known
    spec: PodSpec
    namespace: str
    labels: KnownLabels
    gang: str
    terminating: bool
    owner: str
    uids: list[str] = []
    names: list[str] = []
    revisions: list[int] = []
    nodes: list[str] = []


class Pods:
    """Gathers pods until `take`; remembers what was told of those that have a node."""

    def __init__(
        self,
        schedulers: frozenset[str],
        groups: Groups,
        refusals: Refusals,
        written: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """`schedulers` are the names that pods of ours carry; empty = all. `written` has
        the revisions that our own writes of conditions made: pods at such a revision are left out.
        """
        self._schedulers, self._groups, self._refusals = schedulers, groups, refusals
        self._written = written
        self._refused: dict[str, bool] = {}
        self._templates = Templates()
        self._columns: dict[tuple[object, ...], _Column] = {}
        self._inside: dict[str, bool] = {}
        self._gone: list[str] = []
        self._events: list[Event] = []
        self._told: dict[str, _Told] = {}
        self._started: dict[str, int] = {}

    def forget(self) -> None:
        """Tell everything anew: what was gathered or told may never have arrived."""
        for held in (self._columns, self._inside, self._told, self._started):
            held.clear()
        self._gone.clear()
        self._events.clear()

    def seen(self, pod: RawPod) -> None:
        """A pod as it is now. Raises msgspec.ValidationError, ValueError for a bad one."""
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
            start, before = pod.status.startTime, self._told.get(meta.uid)
            flags = LEAVES * bool(meta.deletionTimestamp) | STARTED * bool(start)
            told = (known.template, labels.labels, node, flags)
            if before == told:
                return
            self._told[meta.uid] = told
            if start and not (before and before[-1] & STARTED):
                self._started[meta.uid] = time_ms(start)
            if before and (*before[:-1], before[-1] | STARTED) == told:
                return  # nothing else is new
            self._refusals.forget(meta.uid)
        elif known.refused is not None:
            self._refuse(pod, *known.refused)
            return
        self._add(pod, known, labels, node)

    def _refuse(self, pod: RawPod, field: str, rule: str) -> None:
        """A pod of ours that we cannot schedule: said once to the journal, and to people. That it
        has gates says the API server, as long as that is why it waits.
        """
        meta = pod.metadata
        if meta.uid not in self._refused:
            self._refused[meta.uid] = True
            self._events.append(InputRejected(f"Pod {meta.namespace}/{meta.name}", field, rule))
        if not raw_json(pod.spec.schedulingGates):
            ref = PodRef(meta.uid, meta.namespace, meta.name)
            self._refusals.add(ref, f"{field}: {rule}")

    def _add(self, pod: RawPod, known: Known, labels: KnownLabels, node: str) -> None:
        meta, ref = pod.metadata, known.template.ref
        revision = int(meta.resourceVersion)
        if meta.uid in self._inside:
            self._flush()
        gang = self._groups.gang_of(meta.namespace, ref) if ref is not None else ""
        terminating = bool(meta.deletionTimestamp)
        owner = self._templates.owner(meta.ownerReferences)
        spec, own = known.template.spec, ""
        if has_own_claims(spec.volumes):
            volumes = volumes_of_pod(spec.volumes, meta.name, meta.uid)
            spec, own = msgspec.structs.replace(spec, volumes=volumes), meta.uid
        if not self._schedulers or pod.spec.schedulerName in self._schedulers:
            named_spec = named(spec, meta.namespace, meta.name)
            spec, own = named_spec, own if named_spec is spec else meta.uid
        like = (known.number, labels.number, meta.namespace, gang, terminating, owner)
        key = (*like, bool(node), own)
        column = self._columns.get(key)
        if column is None:
            who = (known, spec, meta.namespace, labels, gang, terminating, owner)
            column = _Column(*who, [], [], [], [])
            self._columns[key] = column
        self._inside[meta.uid] = True
        column.uids.append(meta.uid)
        column.names.append(meta.name)
        column.revisions.append(revision)
        if node:
            column.nodes.append(node)

    def gone(self, pod: RawPod) -> None:
        """A pod that was deleted, or that finished and holds nothing."""
        uid = pod.metadata.uid
        node, scheduler = pod.spec.nodeName, pod.spec.schedulerName
        if not node and self._schedulers and scheduler not in self._schedulers:
            return
        if uid in self._inside:
            self._flush()
        self._told.pop(uid, None)
        self._started.pop(uid, None)
        self._refused.pop(uid, None)
        self._refusals.forget(uid)
        self._gone.append(uid)

    def reject(self, what: str, field: str, rule: str) -> None:
        """An object that cannot be used, in its turn."""
        self._events.append(InputRejected(what, field, rule))

    def take(self) -> list[Event]:
        """What was gathered, in the order in which it holds of every single pod."""
        self._flush()
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
                    gated=template.gated,
                    terminating=column.terminating,
                    owner=column.owner,
                )
            )
        if self._started:
            starts_ms = pack(self._started.values())
            self._events.append(PodsStartedSeen(join(self._started), starts_ms))
            self._started.clear()
        if self._gone:
            self._events.append(PodsDeletedSeen(join(self._gone)))
            self._gone = []
        self._columns.clear()
        self._inside.clear()
