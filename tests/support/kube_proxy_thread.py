"""The fault proxy for tests without an event loop: it runs in a thread of its own.

Reading its log and adding faults is safe from any thread; waits happen in its loop.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.kube_options import Layout
from tests.support.kube_proxy import Fault, KubeProxy, kube_proxy

_START_S = 120.0


@dataclass(frozen=True)
class ProxyThread:
    """A running proxy and its loop."""

    proxy: KubeProxy
    loop: asyncio.AbstractEventLoop

    def add(self, fault: Fault) -> Fault:
        """Add a fault, which applies from now on."""
        self.proxy.faults.append(fault)
        return fault

    def over(self, fault: Fault) -> None:
        """Let the held requests continue; the fault applies to no other request."""
        fault.times = 0
        self.loop.call_soon_threadsafe(fault.over.set)

    def cut(self, path: str) -> int:
        """Break open watches; see KubeProxy."""

        async def cut() -> int:
            return self.proxy.cut(path)

        return asyncio.run_coroutine_threadsafe(cut(), self.loop).result()

    def settled(self) -> None:
        """Wait until every delayed request so far has arrived."""
        asyncio.run_coroutine_threadsafe(self.proxy.settled(), self.loop).result()


@contextmanager
def proxy_thread(at: Layout) -> Iterator[ProxyThread]:
    """Yield a proxy before the API server of a KubeServers (its `at`)."""
    ready = threading.Event()
    made: list[ProxyThread] = []
    ends: list[asyncio.Event] = []

    async def serve() -> None:
        async with kube_proxy(at) as proxy:
            ends.append(asyncio.Event())
            made.append(ProxyThread(proxy, asyncio.get_running_loop()))
            ready.set()
            await ends[0].wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="kube-proxy", daemon=True)
    thread.start()
    assert ready.wait(_START_S), "the proxy did not start"
    try:
        yield made[0]
    finally:
        made[0].loop.call_soon_threadsafe(ends[0].set)
        thread.join()
