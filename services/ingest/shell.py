"""Ingest's shell: watches the cluster and lists it if it must; it decides nothing.

It resumes from the revisions in the owner's state, so a new owner lists only at the first start,
when the cluster has compacted them, or after a list broke off. Lists and the watch never overlap,
so that neither can overtake the other about an object. Before each of them it checks whether the
cluster's revision fell: then etcd was restored, and everything is listed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from services.ingest.grouping import grouped, pods_of
from shared.events.base import Event
from shared.events.ingest import ListAsked
from shared.events.observed import (
    BudgetsSeen,
    ClusterRestored,
    GangsSeen,
    LeadSeen,
    ListBegan,
    ListEnded,
    NodesSeen,
    ObjectsSeen,
    PodsSeen,
    WatchAdvanced,
    WorldOpened,
)
from shared.machine.runtime import SUBMISSIONS_MAX, OwnerPort
from shared.model.ids import EffectId
from shared.ports.cluster import OBJECTS, Cluster, Gone, Marks, Restored, Watched

PODS_PER_TURN = 32_768
POLL_S = 0.001
RETRY_INITIAL_S = 0.05
RETRY_MAX_S = 5.0
QUIET_TRIES = 3

log = logging.getLogger("muster.ingest")


class IngestShell:
    """The watcher of one owner."""

    def __init__(
        self, cluster: Cluster, leads: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        """Do nothing before `start`. `leads` waits until this process leads; None: it does."""
        self._cluster, self._leads = cluster, leads
        self._owner: OwnerPort | None = None
        self._task: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._standing_by: asyncio.Task[None] | None = None
        self._asked: dict[str, bool] = {}
        self._since = 0
        self._marks: dict[str, int] = {}
        self._newest = 0  # the highest revision seen
        self._is_restored = self._is_restore_submitted = False
        self._pods = 0
        self._tries = 0

    def start(self, owner: OwnerPort) -> None:
        """Resume from the revisions in the state."""
        self._owner = owner
        self._since = owner.state.revision
        self._marks = dict(owner.state.marks)
        self._newest = max((self._since, *self._marks.values()))
        self._asked.update(owner.state.broken_off)
        if OBJECTS in self._cluster.kinds and not owner.state.listed_objects:
            # The journal may be older than this kind.
            self._asked[OBJECTS] = True
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run())
        if self._leads is not None:
            self._standing_by = loop.create_task(self._stand_by(self._leads()))

    def effect(self, effect_id: EffectId, effect: Event) -> None:
        """List the kinds that the core requests; the watch rests meanwhile."""
        assert isinstance(effect, ListAsked), f"effect {effect_id}: {effect}"
        self._asked[effect.kind] = True
        if self._owner is not None and self._owner.state.is_restored:
            if not self._is_restore_submitted:
                self._submit_restored("a list shows pods older than they were seen")
        else:
            self._is_restore_submitted = False
        if self._watching is not None:
            self._watching.cancel()

    async def stop(self) -> None:
        """Stop submitting observations."""
        self._owner = None
        tasks = [task for task in (self._task, self._standing_by) if task is not None]
        self._task = self._standing_by = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._session()
            except Gone as error:
                log.info("listing everything again: %s", error)
                self._asked = dict.fromkeys(self._cluster.kinds, True)
            except Restored as error:
                self._is_restored = True
                log.info("%s", error)
            except (OSError, TimeoutError) as error:
                # Watches end routinely; warn only if the cluster stays away.
                level = logging.INFO if self._tries < QUIET_TRIES else logging.WARNING
                log.log(level, "the cluster does not answer, trying again: %s", error)
                await self._pause()
            except Exception:
                # A watcher that died silently would leave the mesh blind: log it and continue.
                log.exception("watching the cluster failed, trying again")
                await self._pause()

    async def _pause(self) -> None:
        delay_s = min(RETRY_MAX_S, RETRY_INITIAL_S * 2 ** min(self._tries, 10))
        self._tries += 1
        await asyncio.sleep(delay_s)

    async def _session(self) -> None:
        """Watch until an error, or until a list is requested."""
        opened = WorldOpened(await self._cluster.identity())
        if self._leads is not None:
            await self._submit(opened, LeadSeen(False))
        elif self._owner is not None and self._owner.state.stands_by:
            await self._submit(opened, LeadSeen(True))
        else:
            await self._submit(opened)
        if not self._since:
            # No earlier watch covers the first lists: if one of them failed, objects in the others
            # may be deleted by the time the watch begins.
            self._asked = dict.fromkeys(self._cluster.kinds, True)
        while True:
            await self._notice_restored()
            if self._asked:
                await self._list([kind for kind in self._cluster.kinds if kind in self._asked])
                continue
            self._watching = asyncio.get_running_loop().create_task(self._watch())
            try:
                await self._watching
            except asyncio.CancelledError:
                if self._owner is None or not self._asked:
                    raise
            finally:
                self._watching.cancel()
                await asyncio.gather(self._watching, return_exceptions=True)
                self._watching = None

    async def _stand_by(self, leads: Awaitable[object]) -> None:
        """Submit that this process leads when it does."""
        await leads
        self._leads = None
        await self._submit(LeadSeen(True))

    async def _notice_restored(self) -> None:
        """List everything after a restore of the cluster."""
        if not self._newest:
            return
        revision = await self._cluster.newest_revision()
        if revision >= self._newest and not self._is_restored:
            return
        self._submit_restored(f"it is at revision {revision}, {self._newest} was seen before")
        await self._submit(ClusterRestored(revision))
        self._asked = dict.fromkeys(self._cluster.kinds, True)
        self._since = self._newest = 0
        self._marks = {}
        self._is_restored = False

    def _submit_restored(self, evidence: str) -> None:
        self._is_restore_submitted = True
        log.warning(
            "the cluster was restored from a backup (%s): listing everything again and "
            "abandoning binds in flight",
            evidence,
        )

    async def _list(self, kinds: Sequence[str]) -> None:
        """List some kinds; after a list of all kinds, watch from the oldest revision of them."""
        oldest = 0
        for kind in kinds:
            listed = await self._cluster.list_all(kind)
            self._asked.pop(kind)
            self._newest = max(self._newest, listed.revision, *listed.marks.values())
            await self._submit(ListBegan(kind, listed.revision, tuple(listed.marks.items())))
            for event in grouped(listed.events):
                await self._submit(event)
            await self._submit(ListEnded(kind, sum(_objects(event) for event in listed.events)))
            self._advance(listed.marks)
            oldest = min(oldest, listed.revision) if oldest else listed.revision
        if len(kinds) == len(self._cluster.kinds):
            # A list may lag behind the watch; going back would revive objects deleted since.
            self._since = max(self._since, oldest)
            await self._submit(WatchAdvanced(oldest))
        self._tries = 0

    async def _watch(self) -> None:
        async for watched in self._cluster.watch(self._since, self._marks):
            await self._submit_delivery(watched)
            self._tries = 0
        raise ConnectionError("the watch ended")

    async def _submit_delivery(self, watched: Watched) -> None:
        """Submit one delivery together with its revision in one record: a part of it would be
        delivered again, older than the rest. Only a delivery beyond the size of a record is split.
        """
        advanced = WatchAdvanced(watched.revision, tuple(watched.marks.items()))
        events = [*grouped(watched.events), advanced]
        if sum(map(pods_of, events)) <= PODS_PER_TURN:
            await self._submit(*events)
        else:
            for event in events:
                await self._submit(event)
        self._since = watched.revision
        self._newest = max(self._newest, watched.revision, *watched.marks.values())
        self._advance(watched.marks)

    def _advance(self, marks: Marks) -> None:
        for part, mark in marks.items():
            self._marks[part] = max(mark, self._marks.get(part, 0))

    async def _submit(self, *events: Event) -> None:
        """Submit events for one record, when the owner has room for them."""
        pods = sum(map(pods_of, events))
        # No signal tells when the owner has taken a turn: the machine knows no shells.
        while self._owner is not None and (  # noqa: ASYNC110
            self._owner.submitted > SUBMISSIONS_MAX
            or (self._owner.submitted and self._pods + pods > PODS_PER_TURN)
        ):
            await asyncio.sleep(POLL_S)
        if self._owner is None:
            raise asyncio.CancelledError
        self._pods = pods if not self._owner.submitted else self._pods + pods
        self._owner.submit(*events)


def _objects(event: Event) -> int:
    """Return how many objects an event of a list names."""
    match event:
        case PodsSeen():
            return event.uids.count("\n") + 1 if event.uids else 0
        case NodesSeen():
            return len(event.nodes)
        case BudgetsSeen():
            return len(event.budgets)
        case GangsSeen():
            return len(event.gangs)
        case ObjectsSeen():
            return len(event.objects)
        case _:
            return 0
