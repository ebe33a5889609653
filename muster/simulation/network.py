"""The network between one process and the cluster: lost and late requests and answers.

A sent request reaches the cluster even if its sender has died or given up. Answers are definite or
`UNKNOWN`, never an exception, as the port demands.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from muster.checker.inputs.history import Post
from shared.model.api_outcome import Answer
from shared.ports.cluster import (
    NO_MARKS,
    BindRequest,
    ClaimsAnswer,
    ClaimsRequest,
    Cluster,
    Gone,
    GroupCondition,
    Marks,
    NodesRequest,
    PastBind,
    PodRead,
    PodRef,
    VolumeRequest,
    Watched,
)

TIMEOUT_S = 1.0


class Way(StrEnum):
    """The fate of one request."""

    THERE_AND_BACK = "answered"
    LOST = "request-lost"
    UNANSWERED = "response-lost"
    LATE = "request-late"
    BUSY = "busy"
    REFUSED = "refused"


@dataclass
class NetworkFaults:
    """Rates of the network faults; all zero once the run is healed."""

    lost: float = 0.0
    unanswered: float = 0.0
    late: float = 0.0
    busy: float = 0.0
    refused: float = 0.0
    watch_gone: float = 0.0
    stale_list: float = 0.0
    touched: float = 0.0
    lag_spike: float = 0.0

    def heal(self) -> None:
        """End all faults."""
        self.lost = self.unanswered = self.late = self.busy = 0.0
        self.refused = self.watch_gone = self.stale_list = self.lag_spike = 0.0
        self.touched = 0.0


@dataclass
class Wire:
    """State shared by all connections: the cluster, the fates, and the requests sent."""

    cluster: Cluster
    rng: random.Random
    faults: NetworkFaults
    seen: Counter[str] = field(default_factory=Counter)
    posts: list[Post] = field(default_factory=list)
    target: dict[str, str] = field(default_factory=dict)
    listed: dict[str, Watched] = field(default_factory=dict)
    hunted: set[str] = field(default_factory=set)
    on_sent: Callable[[Sequence[Post]], None] | None = None
    remade_s: dict[str, float] = field(default_factory=dict)
    flights: set[asyncio.Task[Any]] = field(default_factory=set)

    def way(self, uid: str = "") -> Way:
        """Draw the fate of a request. A pod whose POST is late is likely to be refused next: so it
        gets another place while the old POST is still under way.
        """
        faults, rng = self.faults, self.rng
        draw = rng.random()
        if uid in self.hunted and faults.late and draw < 0.5:
            self.hunted.discard(uid)
            return self._note(Way.REFUSED)
        for way, share in (
            (Way.LOST, faults.lost),
            (Way.UNANSWERED, faults.unanswered),
            (Way.LATE, faults.late),
            (Way.BUSY, faults.busy),
            (Way.REFUSED, faults.refused),
        ):
            if draw < share:
                return self._note(way)
            draw -= share
        return Way.THERE_AND_BACK

    def _note(self, way: Way) -> Way:
        self.seen[way] += 1
        return way

    def fly(self, delay_s: float, call: Callable[[], Coroutine[Any, Any, Any]]) -> "Answered":
        """Send a request; it arrives even without its sender."""
        loop = asyncio.get_running_loop()
        answer: Answered = loop.create_future()

        async def arrive() -> None:
            result = await call()
            if not answer.done():
                answer.set_result(result)

        def depart() -> None:
            task = loop.create_task(arrive())
            self.flights.add(task)
            task.add_done_callback(self.flights.discard)

        loop.call_later(delay_s, depart)
        return answer


Answered = asyncio.Future[Any]


class SimNetwork:
    """One process's connection to the cluster; implements Cluster."""

    def __init__(self, wire: Wire, sender: str, epoch: int) -> None:
        self.wire, self.sender, self.epoch = wire, sender, epoch
        self.kinds = wire.cluster.kinds
        self._loop = asyncio.get_running_loop()
        self._rtt_s = wire.rng.choice((0.001, 0.004, 0.01, 0.03))
        self.open: dict[tuple[str, int], tuple[BindRequest, Post]] = {}

    async def identity(self) -> str:
        """See Cluster.identity."""
        await self._trip()
        return await self.wire.cluster.identity()

    async def newest_revision(self) -> int:
        """See Cluster.newest_revision."""
        return await self.wire.cluster.newest_revision()

    async def _trip(self) -> None:
        rng, faults = self.wire.rng, self.wire.faults
        spike_s = 1.5 * rng.random() if rng.random() < faults.lag_spike else 0.0
        await asyncio.sleep(self._rtt_s * (0.5 + rng.random()) + spike_s)

    async def list_all(self, kind: str) -> Watched:
        """See Cluster.list_all."""
        wire = self.wire
        await self._trip()
        if kind in wire.listed and wire.rng.random() < wire.faults.stale_list:
            # A server that lags serves its last known state.
            wire.seen["stale-list"] += 1
            found = wire.listed[kind]
        else:
            found = wire.listed[kind] = await wire.cluster.list_all(kind)
        await self._trip()
        return found

    async def watch(self, since: int, marks: Marks = NO_MARKS) -> AsyncIterator[Watched]:
        """See Cluster.watch. Sometimes the revision is compacted."""
        wire = self.wire
        if wire.rng.random() < wire.faults.watch_gone:
            wire.seen["watch-gone"] += 1
            raise Gone(f"revision {since} is compacted")
        async for part in wire.cluster.watch(since, marks):
            await self._trip()
            yield part

    async def bind(self, requests: Sequence[BindRequest]) -> list[PodRead]:
        """See Cluster.bind."""
        wire = self.wire
        now_s = self._loop.time()
        posts = [
            Post(now_s, self.sender, r.uid, r.node, r.revision, wire.way(r.uid).value, self.epoch)
            for r in requests
        ]
        wire.posts.extend(posts)
        if wire.on_sent is not None:
            wire.on_sent(posts)
        for request, post in zip(requests, posts, strict=True):
            wire.target[request.uid] = request.node
            if post.way == Way.LATE:
                wire.hunted.add(request.uid)
        pairs = list(zip(requests, posts, strict=True))
        for request, post in pairs:
            self.open[(request.uid, request.revision)] = (request, post)
        answers = await self._each(
            [Way(post.way) for post in posts],
            lambda rows: self._post([pairs[row] for row in rows]),
            PodRead(Answer.UNKNOWN),
            {Way.BUSY: PodRead(Answer.BUSY), Way.REFUSED: PodRead(Answer.REFUSED)},
        )
        for request in requests:
            self.open.pop((request.uid, request.revision), None)
        return answers

    def resend(self) -> int:
        """Send all unanswered requests once more, a little later, as a process that wakes up after
        its successor has begun. Returns the number of requests.
        """
        now_s = self._loop.time()
        for request, post in list(self.open.values()):
            twin = replace(post, sent_s=now_s, way=Way.LATE.value, landed_s=None, answer=None)
            self.wire.posts.append(twin)
            pair = (request, twin)
            late_s = 0.2 + 2.5 * self.wire.rng.random()
            self.wire.fly(late_s, lambda pair=pair: self._post([pair]))  # type: ignore[misc]
        return len(self.open)

    async def _post(self, pairs: list[tuple[BindRequest, Post]]) -> list[PodRead]:
        wire = self.wire
        for request, _post in pairs:
            if wire.faults.touched and wire.rng.random() < wire.faults.touched:
                # Another client writes to the pod first: the POST's resourceVersion is stale.
                wire.seen["pod-touched-first"] += 1
                await wire.cluster.touch([PodRef(request.uid)], [""])
        answers = await wire.cluster.bind([request for request, _post in pairs])
        for (request, post), answer in zip(pairs, answers, strict=True):
            post.landed_s, post.answer = self._loop.time(), answer.answer
            if answer.answer is Answer.DONE and wire.remade_s.get(post.node, -1.0) >= post.sent_s:
                wire.seen["bind-landed-on-remade-node"] += 1
            if post.way == Way.LATE:
                wire.seen["late-post"] += 1
                if wire.target[request.uid] != request.node:
                    wire.seen["late-post-after-re-placement"] += 1
        return answers

    async def read(self, pods: Sequence[PodRef]) -> list[PodRead]:
        """See Cluster.read."""
        return await self._each(
            [self._read_way() for _ in pods],
            lambda rows: self.wire.cluster.read([pods[row] for row in rows]),
            PodRead(Answer.UNKNOWN),
            {},
        )

    def _read_way(self) -> Way:
        way = self.wire.way()
        return way if way in (Way.LOST, Way.UNANSWERED, Way.LATE) else Way.THERE_AND_BACK

    async def touch(
        self, pods: Sequence[PodRef], messages: Sequence[str], reasons: Sequence[str] = ()
    ) -> list[PodRead]:
        """See Cluster.touch."""
        return await self._each(
            [self._read_way() for _ in pods],
            lambda rows: self.wire.cluster.touch(
                [pods[row] for row in rows],
                [messages[row] for row in rows],
                [reasons[row] for row in rows] if reasons else (),
            ),
            PodRead(Answer.UNKNOWN),
            {},
        )

    async def bind_volumes(self, requests: Sequence[VolumeRequest]) -> list[Answer]:
        """See Cluster.bind_volumes."""
        return await self._each(
            [self.wire.way() for _ in requests],
            lambda rows: self.wire.cluster.bind_volumes([requests[row] for row in rows]),
            Answer.UNKNOWN,
            {Way.BUSY: Answer.BUSY, Way.REFUSED: Answer.REFUSED},
        )

    async def write_claims(self, requests: Sequence[ClaimsRequest]) -> list[ClaimsAnswer]:
        """See Cluster.write_claims."""
        return await self._each(
            [self.wire.way() for _ in requests],
            lambda rows: self.wire.cluster.write_claims([requests[row] for row in rows]),
            ClaimsAnswer(Answer.UNKNOWN),
            {Way.BUSY: ClaimsAnswer(Answer.BUSY), Way.REFUSED: ClaimsAnswer(Answer.REFUSED)},
        )

    async def evict(self, pods: Sequence[PodRef], by: PodRef | None = None) -> list[Answer]:
        """See Cluster.evict."""
        return await self._each(
            [self.wire.way() for _ in pods],
            lambda rows: self.wire.cluster.evict([pods[row] for row in rows], by),
            Answer.UNKNOWN,
            {Way.BUSY: Answer.BUSY, Way.REFUSED: Answer.REFUSED},
        )

    async def show_groups(self, groups: Sequence[GroupCondition]) -> None:
        """See Cluster.show_groups."""
        await self._trip()
        if self.wire.way() is Way.LOST:
            raise ConnectionError("lost")
        await self.wire.cluster.show_groups(groups)

    async def request_nodes(self, requests: Sequence[NodesRequest]) -> list[str]:
        """See Cluster.request_nodes."""
        await self._trip()
        if self.wire.way() is Way.LOST:
            raise ConnectionError("lost")
        return await self.wire.cluster.request_nodes(requests)

    def announce_binds(self, binds: Sequence[PastBind], are_new: bool = False) -> None:
        """See Cluster.announce_binds."""

    async def _each(
        self,
        ways: list[Way],
        call: Callable[[list[int]], Coroutine[Any, Any, list[Any]]],
        unknown: Any,
        definite: dict[Way, Any],
    ) -> list[Any]:
        """Send requests of one fate together; return the answers in the order of the requests."""
        answers: list[Any] = [unknown] * len(ways)
        await self._trip()
        waits: list[tuple[list[int], Answered]] = []
        for way in Way:
            rows = [row for row, drawn in enumerate(ways) if drawn is way]
            if not rows or way is Way.LOST:
                continue
            if way in (Way.BUSY, Way.REFUSED):
                for row in rows:
                    answers[row] = definite.get(way, unknown)
                continue
            waits += self._send(way, rows, call)
        for rows, answer in waits:
            for row, result in zip(rows, await answer, strict=True):
                answers[row] = result
        if any(way in (Way.LOST, Way.UNANSWERED, Way.LATE) for way in ways):
            await asyncio.sleep(TIMEOUT_S)
        await self._trip()
        return answers

    def _send(
        self, way: Way, rows: list[int], call: Callable[[list[int]], Coroutine[Any, Any, list[Any]]]
    ) -> list[tuple[list[int], Answered]]:
        wire = self.wire
        if way is Way.LATE:
            for row in rows:
                late_s = wire.rng.choice((0.3, 1.5, 3.0, 6.0, 9.0))
                wire.fly(TIMEOUT_S + late_s, lambda row=row: call([row]))  # type: ignore[misc]
            return []
        answer = wire.fly(0.0, lambda: call(rows))
        return [(rows, answer)] if way is Way.THERE_AND_BACK else []
