"""Serves the extender over HTTP and keeps its view of the cluster fresh."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from aiohttp import web
from msgspec import Raw

from muster.extender.answers import filter_nodes, preempt, prioritize
from muster.extender.binds import Binder
from muster.extender.view import ClusterView
from muster.extender.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    Malformed,
    UnreadablePod,
    decoded,
    pod_in,
)
from services.ingest.core.state import IngestState
from services.ingest.shell import IngestShell
from shared.events.base import Event
from shared.events.observed import ListEnded
from shared.kubernetes.cluster import KubeCluster

BODY_BYTES_MAX = 256 << 20
"""Enough for 10,000 nodes with all their images."""
LATE_S, LOOK_S = 0.2, 0.01
"""How long a refusal waits for the watch. kube-scheduler asks again about a pod because of an event
that it has seen. If Muster sees that event later, the pod would wait for the next one, which in a
quiet cluster may be minutes away.
"""
REFUSED_MAX = 10_000
BAD_REQUEST, UNPROCESSABLE, UNAVAILABLE = 400, 422, 503
Answer = TypeVar("Answer", ExtenderFilterResult, ExtenderPreemptionResult)
VERBS = ("filter", "prioritize", "preempt", "bind")


class Follower:
    """Gives the view what ingest's shell observes, at once: the port of an owner without a journal.
    `failed` ends with the error of an observation that cannot be applied.
    """

    submitted = 0

    def __init__(self, view: ClusterView, cluster: KubeCluster, binder: Binder) -> None:
        """Observe nothing yet."""
        self._view, self._binder = view, binder
        self._shell = IngestShell(cluster)
        self._started_effect = 0
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def state(self) -> IngestState:
        """Return ingest's state."""
        return self._view.ingest

    def start(self) -> None:
        """List and watch the cluster."""
        self._shell.start(self)

    async def stop(self) -> None:
        """Stop watching."""
        await self._shell.stop()

    def submit(self, *events: Event) -> None:
        """Apply observations, and begin the lists that ingest asks for."""
        if self.failed.done():
            return
        try:
            self._view.observe(events, time.time_ns() // 1_000_000)
        except Exception as error:
            self.failed.set_exception(error)
            raise
        for number, effect in self._view.asked_lists().items():
            if number > self._started_effect:
                self._started_effect = number
                self._shell.effect(number, effect)
        if any(isinstance(event, ListEnded) and event.kind == "pods" for event in events):
            self._binder.settle_all()


class _Patience:
    """Lets refusals wait for the watch, unless it has shown something since the last refusal of the
    same pod: in a busy cluster the next event that wakes the pod is near.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        # Pod -> news at its last refusal.
        self._refused: dict[str, int] = {}

    async def wait(self, pod: Raw, ask: Callable[[], Answer]) -> Answer:
        """Return an answer, if it is a refusal then as the watch shows things a little later."""
        found = ask()
        if not found.may_be_late():
            return found
        uid, view = pod_in(pod).metadata.uid, self._view
        looks = 0
        if view.news == self._refused.get(uid, view.news):
            looks = round(LATE_S / LOOK_S)
        asked = view.news
        for _look in range(looks):
            await asyncio.sleep(LOOK_S)
            if view.news != asked:
                asked, found = view.news, ask()
                if not found.may_be_late():
                    return found
        if len(self._refused) >= REFUSED_MAX:
            self._refused.clear()
        self._refused[uid] = view.news
        return found


@asynccontextmanager
async def served(
    view: ClusterView, binder: Binder, address: tuple[str, int], why_unready: Callable[[], str]
) -> AsyncIterator[None]:
    """Answer kube-scheduler while the context is open. `why_unready` returns why no question can be
    answered yet, or nothing. Raises OSError if the address cannot be used.
    """

    patience = _Patience(view)

    async def answer(verb: str, body: bytes) -> Any:
        match verb:
            case "filter":
                args = decoded(body, ExtenderArgs)
                return await patience.wait(args.Pod, lambda: filter_nodes(view, args))
            case "prioritize":
                return prioritize(view, decoded(body, ExtenderArgs))
            case "preempt":
                asked = decoded(body, ExtenderPreemptionArgs)
                return await patience.wait(asked.Pod, lambda: preempt(view, asked))
            case _:
                return ExtenderBindingResult(await binder.bind(decoded(body, ExtenderBindingArgs)))

    async def asked(request: web.Request) -> web.Response:
        body = await request.read()
        if why := why_unready():
            return web.Response(text=f"{why}\n", status=UNAVAILABLE)
        try:
            found = await answer(request.match_info["verb"], body)
        except Malformed as error:
            return web.Response(text=f"{error}\n", status=BAD_REQUEST)
        except UnreadablePod as error:
            return web.Response(text=f"{error}\n", status=UNPROCESSABLE)
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    async def readyz(_request: web.Request) -> web.Response:
        why = why_unready()
        return web.Response(text=f"{why or 'ok'}\n", status=UNAVAILABLE if why else 200)

    app = web.Application(client_max_size=BODY_BYTES_MAX)
    app.add_routes([web.post(f"/{{verb:{'|'.join(VERBS)}}}", asked), web.get("/readyz", readyz)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, *address).start()
        yield
    finally:
        await runner.cleanup()
