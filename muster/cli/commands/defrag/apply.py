"""`muster defrag --apply`: evicts the pods of a plan, place by place, and waits for the pods with
which their controllers replace them.

While it runs, the nodes of the plan have a taint, so that schedulers place no pods there. Nothing
else steers the replacements. So before each step the command lists the cluster, and evicts the pods
of a place only if Muster's filters find another node for each.
"""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from muster.app.event_loop import loop_factory
from muster.cli.addresses.kube import kube_cluster
from muster.cli.commands.cluster_case import list_objects
from muster.cli.errors import EXIT_TERMINATED, Fault
from muster.defrag.answer import Applied, Moved
from muster.defrag.check import why_not
from muster.defrag.cluster import Cluster
from muster.defrag.movable import TAINT, controller_of, taints_of
from muster.defrag.plan import FreedNode, Move, Plan
from shared.kubernetes.client.client import KubeClient, Response

Objects = Sequence[Mapping[str, Any]]
MERGE = "application/merge-patch+json"
POLL_S = 1.0
NOT_FOUND, CONFLICT, TOO_MANY_REQUESTS = 404, 409, 429
TRIES = 10


class _Stopped(Exception):
    """Something unexpected: nothing more is done."""


def apply_plan(
    kubeconfig: str,
    read: Callable[[Objects], Cluster],
    plan_again: Callable[[Cluster], Plan],
    plan: Plan,
    limits: tuple[int, float],
    say: Callable[[str], None],
) -> Applied:
    """Carry the plan out, with at most so many pods without a node at a time, and so many seconds
    for each. Raises Fault if that could not be seen to the end.
    """
    mover = _Mover(kube_cluster(kubeconfig, ()).client, read, limits, say)
    with asyncio.Runner(loop_factory=loop_factory()) as loop:
        try:
            return loop.run(mover.run(plan, plan_again))
        except asyncio.CancelledError as error:
            raise _Terminated("terminated") from error


class _Terminated(Fault):
    """SIGTERM while the plan was carried out."""

    code = EXIT_TERMINATED


class _Mover:
    def __init__(
        self,
        client: KubeClient,
        read: Callable[[Objects], Cluster],
        limits: tuple[int, float],
        say: Callable[[str], None],
    ) -> None:
        self._client, self._read, self._say = client, read, say
        self._at_most, self._wait_s = limits
        self._done = Applied(moved=[], skipped={})

    async def run(self, plan: Plan, plan_again: Callable[[Cluster], Plan]) -> Applied:
        """Carry the plan out. The taint is removed however that ends."""
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        nodes = list(dict.fromkeys([*plan.free, *(one.node for one in plan.places)]))
        try:
            await self._carry_out(plan, nodes)
            self._done.free = len(plan_again(self._read(await self._list())).free)
        finally:
            await self._client.close()
        return self._done

    async def _carry_out(self, plan: Plan, nodes: Sequence[str]) -> None:
        try:
            for node in nodes:
                await self._taint(node, is_wanted=True)
            for place in plan.places:
                await self._empty(place, nodes)
        except (_Stopped, Fault, OSError, TimeoutError) as error:
            self._done.stopped = str(error) or "the cluster does not answer"
        finally:
            for node in nodes:
                try:
                    await self._taint(node, is_wanted=False)
                except (_Stopped, OSError, TimeoutError):
                    self._done.tainted.append(node)

    async def _empty(self, place: FreedNode, nodes: Sequence[str]) -> None:
        """Move the pods of a place, or none of them if one has no other node now."""
        for number in range(0, len(place.moves), self._at_most):
            objects = await self._list()
            if reason := why_not(self._read(objects), place.moves[number:]):
                self._done.skipped[place.node] = reason
                return
            await self._move(place.moves[number : number + self._at_most], objects, nodes)

    async def _move(self, moves: Sequence[Move], objects: Objects, nodes: Sequence[str]) -> None:
        known = {one["metadata"]["uid"] for one in objects if one["kind"] == "Pod"}
        end_s = time.monotonic() + self._wait_s
        evicted: list[Moved] = []
        for move in moves:
            await self._evict(move, end_s)
            evicted.append(Moved(pod=move.pod, from_node=move.from_node))
            self._done.moved.append(evicted[-1])
        while not self._are_replaced(moves, evicted, await self._pods_of(moves), known, nodes):
            await self._pause(end_s, f"no replacement of {_unreplaced(evicted)} has a node")
        for one in evicted:
            self._say(f"{one.from_node}: {one.pod} has moved: {one.replacement} on {one.node}")

    def _are_replaced(
        self,
        moves: Sequence[Move],
        evicted: Sequence[Moved],
        pods: Objects,
        known: set[str],
        nodes: Sequence[str],
    ) -> bool:
        """Return whether all evicted pods are gone, and as many made by their controllers have
        nodes. Raises _Stopped if one of these came to a node of the plan.
        """
        there = {one["metadata"]["uid"] for one in pods}
        new: dict[str, Iterator[tuple[str, str]]] = {}
        for move in moves:
            new[move.owner] = iter(
                (one["metadata"]["name"], one["spec"]["nodeName"])
                for one in pods
                if controller_of(one).get("uid") == move.owner
                and one["metadata"]["uid"] not in known
                and one["spec"].get("nodeName")
            )
        for move, one in zip(moves, evicted, strict=True):
            one.replacement, one.node = next(new[move.owner], ("", ""))
            if one.node in nodes:
                raise _Stopped(f"{one.replacement} came to {one.node} in spite of the taint")
        return all(one.replacement for one in evicted) and not any(
            move.uid in there for move in moves
        )

    async def _pods_of(self, moves: Sequence[Move]) -> Objects:
        found: list[Mapping[str, Any]] = []
        for namespace in Counter(move.pod.partition("/")[0] for move in moves):
            body = await self._client.get(f"/api/v1/namespaces/{namespace}/pods")
            found += msgspec.json.decode(body)["items"]
        return found

    async def _evict(self, move: Move, end_s: float) -> None:
        """Evict a pod, once its budget allows it. Raises _Stopped."""
        namespace, _, name = move.pod.partition("/")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": move.uid}},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{quote(name)}/eviction"
        while not (answer := await self._send("POST", path, body)).ok:
            said = f"the eviction of {move.pod} is refused: {answer.message()}"
            if answer.status != TOO_MANY_REQUESTS:
                raise _Stopped(said)
            await self._pause(end_s, said)

    async def _pause(self, end_s: float, why: str) -> None:
        if time.monotonic() > end_s:
            raise _Stopped(f"after {self._wait_s:,.0f} s {why}")
        await asyncio.sleep(POLL_S)

    async def _taint(self, node: str, is_wanted: bool) -> None:
        """Add our taint to a node, or remove it. Raises _Stopped."""
        path = f"/api/v1/nodes/{quote(node)}"
        answer = await self._client.request("GET", path)
        for _ in range(TRIES):
            if answer.status == NOT_FOUND and not is_wanted:
                return  # with its taint
            if not answer.ok:
                break
            found = msgspec.json.decode(answer.body)
            kept = [one for one in taints_of(found) if one["key"] != TAINT]
            ours = [{"key": TAINT, "effect": "NoSchedule"}] if is_wanted else []
            body = {
                "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
                "spec": {"taints": [*kept, *ours]},
            }
            answer = await self._send("PATCH", path, body, MERGE)
            if answer.ok:
                return
            if answer.status == CONFLICT:
                answer = await self._client.request("GET", path)
        raise _Stopped(f"{node} cannot be tainted: {answer.message()}")

    async def _send(
        self, method: str, path: str, body: Any, content_type: str = "application/json"
    ) -> Response:
        return await self._client.request(method, path, msgspec.json.encode(body), content_type)

    async def _list(self) -> Objects:
        return await list_objects(self._client)


def _unreplaced(evicted: Sequence[Moved]) -> str:
    return ", ".join(one.pod for one in evicted if not one.replacement)
