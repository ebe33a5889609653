"""Calls HTTP extenders about the nodes of a pod one after the other, as kube-scheduler does."""

import asyncio
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from shared.adapters.structured_gather import gather_all
from shared.extenders.client import call
from shared.extenders.port import NodesLeft, NodeVictimRefs, VictimsLeft
from shared.extenders.values import (
    Extender,
    ExtenderError,
    Victims,
    filtered,
    preempted,
    prioritized,
    require_bound,
    victims_asked,
)
from shared.ports.cluster import PodRef

Objects = Mapping[str, Any]
READS_AT_ONCE = 16
SCORE_MAX = 1 << 60  # of all extenders together: a sum with it fits 64 bits


class Left(NamedTuple):
    """The nodes left, and of refused nodes the reason with whether preemption could make room;
    nodes in neither were dropped without a reason.
    """

    nodes: tuple[str, ...]
    failed: dict[str, tuple[str, bool]]


async def filter_nodes(extenders: Sequence[Extender], pod: Objects, nodes: Objects) -> Left:
    """Ask each extender about the nodes that those before left. Raises ExtenderError, unless the
    failed extender may be ignored.
    """
    left, failed = tuple(nodes), dict[str, tuple[str, bool]]()
    for one in extenders:
        if not left:
            break
        if not one.filter_verb or not one.is_interested(pod):
            continue
        asked = {name: nodes[name] for name in left}
        try:
            reply = await call(one, one.filter_verb, one.arguments(pod, asked))
            found = filtered(one, left, reply)
        except ExtenderError:
            if one.ignorable:
                continue
            raise
        failed |= {name: (text, False) for name, text in found.unresolvable.items()}
        failed |= {name: (text, True) for name, text in found.failed.items()}
        left = found.nodes
    return Left(left, failed)


async def score_nodes(
    extenders: Sequence[Extender], pod: Objects, nodes: Objects
) -> dict[str, dict[str, int]]:
    """Return, by extender, what it adds to the totals of nodes; one that fails adds nothing."""
    found: dict[str, dict[str, int]] = {}
    for one in extenders:
        if not one.is_interested(pod):
            continue
        if not one.prioritize_verb:
            found[one.url] = dict.fromkeys(nodes, 0)
            continue
        try:
            reply = await call(one, one.prioritize_verb, one.arguments(pod, nodes))
            found[one.url] = prioritized(one, reply)
        except ExtenderError:
            continue
    return found


async def ask_victims(
    extenders: Sequence[Extender],
    pod: Objects,
    found: Mapping[str, Victims],
    objects: Objects,
    there: Mapping[str, Container[str]],
) -> dict[str, Victims]:
    """Return the victims by node: each extender gets what those before left. `objects` are pods by
    uid, `there` the uids of all pods of each node. Raises ExtenderError, unless the failed extender
    may be ignored.
    """
    left = dict(found)
    for one in extenders:
        if not left:
            break
        if not one.preempts(pod):
            continue
        try:
            reply = await call(one, one.preempt_verb, victims_asked(one, pod, left, objects))
            left = preempted(one, reply, there)
        except ExtenderError:
            if not one.ignorable:
                raise
    return left


class ObjectSource(Protocol):
    """A source of pods and nodes as Kubernetes objects."""

    async def pod_object(self, namespace: str, name: str) -> Objects:
        """Return the present pod. Raises LookupError, ConnectionError, TimeoutError."""
        ...

    async def node_objects(self) -> Mapping[str, Objects]:
        """Return all present nodes, by name. Raises ConnectionError, TimeoutError."""
        ...


class HttpExtenders:
    """Implements the port `ExtenderCalls`."""

    def __init__(self, source: ObjectSource) -> None:
        """`source` has the objects that extenders get."""
        self._source = source

    async def filter_and_score(
        self, extenders: Sequence[Extender], namespace: str, name: str, nodes: Sequence[str]
    ) -> NodesLeft:
        """Return the answer; any failure is part of it."""
        try:
            pod = await self._source.pod_object(namespace, name)
            asked: dict[str, Objects] = {one: {} for one in nodes}
            if not all(one.knows_nodes for one in extenders):
                there = await self._source.node_objects()
                asked = {node: there[node] for node in nodes if node in there}
            left = await filter_nodes(extenders, pod, asked)
            scored: dict[str, dict[str, int]] = {}
            if len(left.nodes) > 1:
                scored = await score_nodes(extenders, pod, {one: asked[one] for one in left.nodes})
        except (ExtenderError, LookupError, OSError) as error:
            return NodesLeft(error=str(error) or repr(error))
        return _judgement(left, scored, asked)

    async def process_preemption(
        self, extenders: Sequence[Extender], pod: PodRef, nodes: Mapping[str, NodeVictimRefs]
    ) -> VictimsLeft:
        """Return the answer. Present pods are read for extenders that do not know the nodes: the
        victims, and the pods that another extender may choose instead.
        """
        found = {node: _victims(nodes[node]) for node in sorted(nodes)}
        there = {node: [*found[node].uids, *_uids(nodes[node].others)] for node in found}
        others = len(extenders) > 1
        shown = [
            one
            for refs in nodes.values()
            for one in (*refs.victims, *(refs.others if others else ()))
        ]
        objects: dict[str, Objects] = {}
        try:
            preemptor = await self._source.pod_object(pod.namespace, pod.name)
            if not all(one.knows_nodes for one in extenders):
                objects = await self._read(shown)
            left = await ask_victims(extenders, preemptor, found, objects, there)
        except (ExtenderError, LookupError, OSError) as error:
            return VictimsLeft(error=str(error) or repr(error))
        return VictimsLeft(left)

    async def _read(self, pods: Sequence[PodRef]) -> dict[str, Objects]:
        """Return pods by uid; of deleted ones the name only. Raises ConnectionError,
        TimeoutError.
        """
        room = asyncio.Semaphore(READS_AT_ONCE)

        async def read(one: PodRef) -> Objects:
            with suppress(LookupError):
                async with room:
                    found = await self._source.pod_object(one.namespace, one.name)
                if found["metadata"]["uid"] == one.uid:
                    return found
            return {"metadata": {"namespace": one.namespace, "name": one.name, "uid": one.uid}}

        found = await gather_all(*map(read, pods))
        return {one.uid: raw for one, raw in zip(pods, found, strict=True)}


def _victims(refs: NodeVictimRefs) -> Victims:
    return Victims(_uids(refs.victims), refs.violations)


def _uids(pods: Sequence[PodRef]) -> tuple[str, ...]:
    return tuple(one.uid for one in pods)


def _judgement(left: Left, scored: dict[str, dict[str, int]], asked: Objects) -> NodesLeft:
    failed = [
        failure for name, failure in left.failed.items() if name in asked and name not in left.nodes
    ]
    totals = [sum(one.get(name, 0) for one in scored.values()) for name in left.nodes]
    return NodesLeft(
        nodes=left.nodes,
        scores=tuple(max(-SCORE_MAX, min(SCORE_MAX, total)) for total in totals),
        failed=tuple(sorted(Counter(text for text, _resolvable in failed).items())),
        resolvable=sum(resolvable for _text, resolvable in failed),
    )


class HttpBinders:
    """Implements the port `Binders`."""

    def __init__(self, writes: bool) -> None:
        """`writes`: extenders know the cluster, and write to it."""
        self.writes = writes

    async def bind(self, extender: Extender, pod: PodRef, node: str) -> str:
        """Return why the pod is not bound, in kube-scheduler's words: it takes every failure for a
        no.
        """
        asked = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid}
        try:
            require_bound(await call(extender, extender.bind_verb, {**asked, "Node": node}))
        except (ExtenderError, OSError) as error:
            return str(error) or repr(error)
        return ""
