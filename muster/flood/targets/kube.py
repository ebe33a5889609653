"""The target on a live cluster: nodes without kubelets, and pods for a scheduler that runs there
already. All objects have a label of the flood, and are deleted at its end, but for namespaces.
"""

import asyncio
import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from muster.cli.errors import Fault
from muster.flood.book import Seen
from muster.flood.plan import Action, AddNodes, AddPods, FailNodes, Plan, RemovePods
from muster.flood.targets.live_bodies import LABEL, Bodies, Body, paths_of, priority_class
from muster.flood.targets.live_pods import LivePod, change_of, pods_of
from shared.kubernetes.client.client import KubeClient
from shared.kubernetes.client.credentials import Credentials
from shared.kubernetes.client.discovery import Collection, pod_groups
from shared.kubernetes.objects.structs import Change
from shared.ports.bus import Bus

WIDTH = 32
"""Requests at once."""
SILENT_S, AGAIN_S, LOOK_S, SETTLE_S = 600.0, 0.2, 0.05, 2.0
TRIES_MAX = 5
SEEN_MAX = 500
"""Objects at most that are looked at after they were deleted."""
CONFLICT, MISSING, BUSY = 409, 404, (429, 500, 502, 503, 504)
AT_ONCE = b'{"gracePeriodSeconds":0}'
WRITES, WRITTEN = ("POST", "PUT", "PATCH", "DELETE", "APPLY"), ("pods", "events")
OF_FLOOD = ("POST pods", "DELETE pods")
_COUNTED = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


async def api_writes(client: KubeClient) -> Counter[str]:
    """Return the number of answered writes of pods and events by kind, whatever the answer."""
    text = (await client.get("/metrics")).decode()
    counts: Counter[str] = Counter()
    for found in _COUNTED.finditer(text):
        labels = dict(_LABEL.findall(found.group(1)))
        if labels["verb"] in WRITES and labels["resource"] in WRITTEN:
            what = "/".join(filter(None, (labels["resource"], labels["subresource"])))
            counts[f"{labels['verb']} {what}"] += int(float(found.group(2)))
    return counts


async def each(
    items: Iterable[Any], do: Callable[..., Awaitable[None]], width: int = WIDTH
) -> None:
    """Call a function with each item, `width` at once."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await do(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(width):
            group.create_task(work())


class Live:
    """A live cluster. Actions become requests, which WIDTH workers send in turn."""

    def __init__(
        self, client: KubeClient, scheduler: str, plan: Plan, groups_at: Collection | None
    ) -> None:
        """Send nothing before `prepare`. Gangs are created at `groups_at`."""
        self._client, self._plan, self._groups_at = client, plan, groups_at
        self._id = f"{time.time_ns():x}"
        self._bodies = Bodies(scheduler, self._id, groups_at)
        self._starts = [numbers.start for numbers, _ in plan.steps]
        self._queue: asyncio.Queue[tuple[str, Body, int]] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._bound: list[int] = []
        self._bound_ms: list[float] = []
        self._nodes: list[str] = []
        self._gone: list[int] = []
        self._known: set[int] = set()
        self._writes: int | None = None
        self._watches = asyncio.Event()
        self._began_s = 0.0
        self.started_ms = 0
        self.reader: Bus | None = None

    # ---------------------------------------------------------------------------- the port

    def start(self) -> None:
        """See the port."""
        self.started_ms = time.time_ns() // 1_000_000
        self._began_s = asyncio.get_running_loop().time()

    def now_ms(self) -> float:
        """See the port."""
        return 1_000 * (asyncio.get_running_loop().time() - self._began_s)

    def processor_s(self) -> None:
        """Return None: the scheduler's process is out of reach."""
        return

    def api_writes(self) -> int | None:
        """Return what `count` has found since the last call; else None."""
        found, self._writes = self._writes, None
        return found

    def seen(self) -> Seen:
        """See the port."""
        for task in self._tasks:
            if task.done():
                task.result()
        found = Seen(self._bound, self._bound_ms, self._gone, self._nodes)
        self._bound, self._bound_ms, self._gone, self._nodes = [], [], [], []
        return found

    def act(self, action: Action) -> None:
        """See the port."""
        if isinstance(action, AddPods):
            for body in self._bodies.gangs(action):
                self._queue.put_nowait(("POST", body, -1))
            for number in action.numbers:
                self._queue.put_nowait(("POST", self._bodies.pod(action, number), -1))
        elif isinstance(action, RemovePods):
            for number in action.numbers:
                self._remove(number)
        elif isinstance(action, AddNodes):
            for node in action.nodes:
                self._queue.put_nowait(("POST", self._bodies.node(node), -1))
        else:
            assert isinstance(action, FailNodes)
            for name in action.names:
                self._queue.put_nowait(("DELETE", Body(f"/api/v1/nodes/{name}", AT_ONCE), -1))

    def _remove(self, number: int) -> None:
        _, step = self._plan.steps[bisect_right(self._starts, number) - 1]
        path = f"/api/v1/namespaces/{step.namespace}/pods/pod-{number}"
        self._queue.put_nowait(("DELETE", Body(path, AT_ONCE), number))

    async def settle(self) -> None:
        """Wait for events and conditions, which follow the binds."""
        await asyncio.sleep(SETTLE_S)
        await self.count()

    async def count(self) -> None:
        """Count the scheduler's writes so far, if the server shows them to us."""
        try:
            counts = await api_writes(self._client)
        except ConnectionError:
            return
        self._writes = counts.total() - sum(counts[what] for what in OF_FLOOD)

    # ------------------------------------------------------------------------- before, after

    async def prepare(self) -> None:
        """Create what exists before the flood, and begin to watch."""
        steps = [step for _, step in self._plan.steps]
        spaces = {step.namespace for step in steps} - {"default"}
        values = {one.spec.priority for step in steps for one, _ in step.mix} - {0}
        await each(map(self._bodies.namespace, sorted(spaces)), self._create)
        await each((self._bodies.labelled(priority_class(one)) for one in values), self._create)
        await each(map(self._bodies.labelled, self._plan.written), self._create)
        await each(map(self._bodies.node, self._plan.nodes), self._create)
        self._tasks = [asyncio.create_task(self._work()) for _ in range(WIDTH)]
        self._tasks.append(asyncio.create_task(self._watch()))
        while not self._watches.is_set():
            self.seen()
            await asyncio.sleep(LOOK_S)
        await self.count()

    async def _create(self, body: Body) -> None:
        await self._send("POST", body)

    async def clean(self) -> None:
        """Delete everything with the flood's label. Raises ApiError and ConnectionError."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        namespaces = sorted({step.namespace for _, step in self._plan.steps} | {"default"})
        query = f"labelSelector={LABEL}%3D{self._id}"
        for path in paths_of(namespaces, self._plan.written, self._groups_at):
            while True:
                answer = await self._client.request("DELETE", f"{path}?{query}", AT_ONCE)
                if not answer.ok:
                    break  # a kind that this server has not, or no collection
                left = await self._client.get(f"{path}?{query}&limit={SEEN_MAX}")
                # PodGroups wait for a controller, which some clusters do not run.
                if all(one.metadata.deletionTimestamp for one in pods_of(left).items):
                    break
                await asyncio.sleep(AGAIN_S)

    # ------------------------------------------------------------------------------- requests

    async def _work(self) -> None:
        while True:
            method, body, number = await self._queue.get()
            await self._send(method, body)
            if number >= 0:
                self._gone.append(number)

    async def _send(self, method: str, body: Body) -> None:
        """Send a request until it is answered. Raises Fault when the server refuses it."""
        for tries in range(TRIES_MAX):
            try:
                answer = await self._client.request(method, body.path, body.content)
            except (ConnectionError, TimeoutError):
                await asyncio.sleep(AGAIN_S * (tries + 1))
                continue
            if answer.ok or answer.status == (MISSING if method == "DELETE" else None):
                return
            if answer.status == CONFLICT and (tries or body.may_exist):
                return
            if answer.status not in BUSY:
                raise Fault(f"{method} {body.path}: {answer.status}: {answer.message()}")
            await asyncio.sleep(answer.retry_after_s or AGAIN_S * (tries + 1))
        raise Fault(f"{method} {body.path}: no answer after {TRIES_MAX} tries")

    async def _watch(self) -> None:
        """Follow the flood's pods that have a node."""
        while True:
            # A loaded server ends watches early; the next one begins with every pod with a node.
            async with aclosing(self._changes()) as changes:
                async for change in changes:
                    self._changed(change)
            await asyncio.sleep(AGAIN_S)

    async def _changes(self) -> AsyncGenerator[Change[LivePod]]:
        query = f"watch=1&labelSelector={LABEL}%3D{self._id}&fieldSelector=spec.nodeName%21%3D"
        try:
            async with self._client.stream(f"/api/v1/pods?{query}", SILENT_S) as answer:
                self._watches.set()
                async for line in answer.content:
                    yield change_of(line)
        except (ConnectionError, TimeoutError):
            return

    def _changed(self, change: Change[LivePod]) -> None:
        number = int(change.object.metadata.name.rpartition("-")[2])
        if change.type == "DELETED":
            self._gone.append(number)
        elif number not in self._known:
            self._known.add(number)
            self._bound.append(number)
            self._bound_ms.append(self.now_ms())
            self._nodes.append(change.object.spec.nodeName)
            _, step = self._plan.steps[bisect_right(self._starts, number) - 1]
            if step.runs_for_ms:
                loop = asyncio.get_running_loop()
                loop.call_later(step.runs_for_ms / 1000, self._remove, number)


@asynccontextmanager
async def live(plan: Plan, kubeconfig: str, scheduler: str) -> AsyncIterator[Live]:
    """Yield a target on a live cluster that has the flood's nodes."""
    client = KubeClient(Credentials(kubeconfig))
    try:
        groups_at = await pod_groups(client)
        if groups_at is None and any(step.gang_size for _, step in plan.steps):
            raise Fault("the cluster serves no pod groups (scheduling.k8s.io): gangs need them")
        target = Live(client, scheduler, plan, groups_at)
        try:
            await target.prepare()
            yield target
        finally:
            await target.clean()
    finally:
        await client.close()
