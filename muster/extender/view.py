"""The cluster as ingest and one shard of placement see it, for questions about single pods.

    observations --> [ingest's core] --facts--> [placement's core] --> node table, pods, volumes

The cores only follow: nothing is dispatched to the shard, so it decides nothing, and no journal is
written. A pod in question gets the signature that ingest would give it. A pod that the extender
binds is charged as if the watch had shown it, from before the request until the watch does.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from muster.extender.wire import UnreadablePod
from services.ingest.core.core import IngestCore
from services.ingest.core.pods.identity import learn, spread, spread_by, with_identity
from services.ingest.core.signatures import acquire_sig, release_sig, spec_key
from services.placement.core.books.charges import compiled
from services.placement.core.core import PlacementCore
from shared.events.base import Configured, Event
from shared.events.ingest import ListAsked
from shared.events.observed import ListEnded, PodsDeletedSeen, PodsSeen, WatchAdvanced
from shared.kubernetes.objects.pod_volumes import has_own_claims, volumes_of_pod
from shared.kubernetes.objects.structs import RawPod
from shared.kubernetes.watching.templates import Templates
from shared.machine.core import step
from shared.model.columns import join, pack, split
from shared.model.ids import EffectId, PodId, SignatureId
from shared.model.profile import Profile
from shared.scheduling.cycle.inter_pod_rules import fits
from shared.scheduling.cycle.one_node import OneNode
from shared.scheduling.cycle.score_classes import static_of
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.table import NodeTable

ASKED_MAX = 256
"""Signatures of pods in question that are kept: pods of a controller share one."""


class ClusterView:
    """The state of a cluster. `assumed` has the pods that are charged before the watch shows them,
    by uid.
    """

    def __init__(self, config: dict[str, Any], profiles: Iterable[Profile] = ()) -> None:
        """`config` has the options of ingest and placement. With `profiles` only pods that name one
        of them can be judged.
        """
        self._ingest_core, self._placement_core = IngestCore(), PlacementCore(0)
        self.ingest, self.placement = self._ingest_core.new(), self._placement_core.new()
        self._ingest_core.evolve(self.ingest, Configured(config))
        self._placement_core.evolve(self.placement, Configured(config))
        self.assumed: dict[str, PodsSeen] = {}
        self.news = 0  # observations so far that showed something
        self._profiles = [one.name for one in profiles]
        self._templates = Templates()
        self._asked: dict[bytes, SignatureId] = {}

    @property
    def table(self) -> NodeTable:
        """Return the node table."""
        return self.placement.table

    def observe(self, events: Iterable[Event], now_ms: int) -> None:
        """Apply observations of the cluster."""
        self.ingest.now_ms = self.placement.now_ms = now_ms
        for event in events:
            self._evolve(event)
            self.news += not isinstance(event, WatchAdvanced)
            match event:
                case PodsSeen() | PodsDeletedSeen():  # on a node, or gone: no assumption any more
                    for uid in split(event.uids):
                        self.assumed.pop(uid, None)
                case ListEnded(kind="pods"):  # the list may be older than the bind
                    for uid, seen in list(self.assumed.items()):
                        self._assume(uid, seen)

    def asked_lists(self) -> Mapping[EffectId, ListAsked]:
        """Return the lists that ingest asks for, by ascending number."""
        return self._ingest_core.effects(self.ingest)

    def _evolve(self, event: Event) -> None:
        self._ingest_core.evolve(self.ingest, event)
        self._publish()

    def _publish(self) -> None:
        """Let the shard follow the facts that ingest has to publish."""
        shard = self._placement_core.journal
        while self._ingest_core.due_ms(self.ingest) is not None:
            for fact in step(self._ingest_core, self.ingest):
                if shard in fact.to() or "placement" in fact.to():
                    self._placement_core.evolve(self.placement, fact)

    # ------------------------------------------------------------------------ pods in question

    def signature(self, pod: RawPod) -> Signature:
        """Return the signature of a pod without a node. Raises UnreadablePod."""
        seen = self._seen(pod)
        if self._profiles and seen.spec.scheduler not in self._profiles:
            known = ", ".join(self._profiles)
            raise UnreadablePod(f"muster has no profile {seen.spec.scheduler!r}: it has {known}")
        state = self.ingest
        identity = seen.namespace, seen.labels, seen.owner
        selector = state.spreaders.selector(*identity) if state.spreads else ()
        spec = spread(seen.spec, spread_by(state, seen.spec, selector))
        learn(state, spec, seen.namespace)
        spec = with_identity(state, spec, seen.namespace, seen.labels, seen.terminating)
        key = spec_key(spec)
        sig = self._asked.pop(key, None) or acquire_sig(state, spec, key, 1)
        self._asked[key] = sig  # the last one asked about comes last
        if len(self._asked) > ASKED_MAX:
            release_sig(state, self._asked.pop(next(iter(self._asked))), 1)
        self._publish()
        return compiled(self.placement, sig)

    def _seen(self, pod: RawPod) -> PodsSeen:
        """Return the pod as a watch would report it. Raises UnreadablePod."""
        meta = pod.metadata
        try:
            labels = self._templates.labels(meta.labels)
            known = self._templates.of(pod.spec, labels, self._templates.shown(meta, labels))
            owner = self._templates.owner(meta.ownerReferences)
            revisions = pack([int(meta.resourceVersion or 0)])
        except (ValueError, RecursionError) as error:
            raise UnreadablePod(f"muster cannot read the pod: {error}") from error
        if known.refused is not None:
            field, rule = known.refused
            raise UnreadablePod(f"muster cannot judge the pod: {field}: {rule}")
        spec = known.template.spec
        if spec.claims:
            rule = "spec.resourceClaims: resource claims are not supported"
            raise UnreadablePod(f"muster cannot judge the pod: {rule}")
        if has_own_claims(spec.volumes):
            spec = replace(spec, volumes=volumes_of_pod(spec.volumes, meta.name, meta.uid))
        return PodsSeen(
            spec=spec,
            uids=meta.uid,
            names=meta.name,
            revisions=revisions,
            namespace=meta.namespace or "default",
            labels=labels.labels,
            terminating=bool(meta.deletionTimestamp),
            owner=owner,
        )

    def fits_without(self, sig: Signature, row: int, uids: Iterable[str]) -> bool:
        """Return whether a pod would fit a node once these pods have left it. Pods that the watch
        does not show there take nothing.
        """
        ledger, node = self.placement.ledger, OneNode(self.table, row)
        passing = static_of(self.table, sig.spec, sig.plugins).ok
        if passing is not None and not passing[row]:
            return False
        for uid in dict.fromkeys(uids):
            slot = self.ingest.pods.slots.get(uid)
            if slot is None:
                continue
            pod = PodId(self.ingest.pods.ids.item(slot))
            at = ledger.placed_row(pod, self.table.node_id_at(row))
            if at is not None:
                node.remove(compiled(self.placement, ledger.sig_at(at)), int(ledger.devices[at]))
        return fits(self.table, sig, node)

    # -------------------------------------------------------------------------- pods being bound

    def assume(self, pod: RawPod, node: str) -> None:
        """Charge a pod to a node, until the watch shows where it is or `forget`. Raises
        UnreadablePod.
        """
        uid = pod.metadata.uid
        self.assumed[uid] = replace(self._seen(pod), nodes=join([node]))
        self._assume(uid, self.assumed[uid])

    def _assume(self, uid: str, seen: PodsSeen) -> None:
        """Charge the pod. Ingest passes over pods that are older than its list."""
        newer = max(int.from_bytes(seen.revisions, "little"), self.ingest.listed_pods + 1)
        self.assumed[uid] = replace(seen, revisions=pack([newer]))
        self._evolve(self.assumed[uid])

    def forget(self, uid: str) -> None:
        """Release an assumed pod: it is not bound. What the watch has shown stands."""
        if self.assumed.pop(uid, None) is not None:
            self._evolve(PodsDeletedSeen(uid))
