"""Small inputs for binding and a readable form of its decisions; no checks."""

from typing import Any

from services.binding.core.core import BindingCore
from shared.events.base import Configured, Event
from shared.events.binding import BindsAsked
from shared.events.ingest import NodesGone, NodesSet, PodsAssigned, PodsGone, PodsNamed
from shared.events.observed import BindAnswers, EvictAnswers
from shared.events.placement import Reserved
from shared.model.api_outcome import Answer
from shared.model.columns import join, pack, unpack
from shared.model.objects import Node
from tests.support.steps import Steps


def binding(**options) -> Any:
    """Return the steps of a core in its first term that knows nodes 1 to 3."""
    steps = Steps(BindingCore(1))
    steps.given(Configured({"binding": options}), nodes(1, 2, 3))
    return steps


def nodes(*ids: int) -> NodesSet:
    return NodesSet(0, pack(ids), tuple(Node(uid=f"n{i}", name=f"node-{i}") for i in ids))


def nodes_gone(*ids: int) -> NodesGone:
    return NodesGone(0, pack(ids))


def named(*ids: int, revision: int = 10) -> PodsNamed:
    """Pod i has revision + i."""
    return PodsNamed(
        pack(ids),
        join(f"uid-{i}" for i in ids),
        join(f"pod-{i}" for i in ids),
        pack([revision + i for i in ids]),
    )


def reserved(pairs: dict[int, int]) -> Reserved:
    """Pod to node."""
    return Reserved(0, 1, 1, pack(pairs.keys()), pack(pairs.values()), b"", 1, 0)


def assigned(pairs: dict[int, int]) -> PodsAssigned:
    return PodsAssigned(0, pack(pairs.keys()), pack([1] * len(pairs)), pack(pairs.values()))


def gone(*ids: int) -> PodsGone:
    return PodsGone(pack(ids))


def answers(effect: int, codes: dict[int, Answer], revision: int = 0, node: int | None = None):
    """Return answers with the same revision and node for all pods."""
    nodes_ = b"" if node is None else pack([node] * len(codes))
    return BindAnswers(
        effect, pack(codes.keys()), bytes(codes.values()), pack([revision] * len(codes)), nodes_
    )


def evict_answers(effect: int, codes: dict[int, Answer]) -> EvictAnswers:
    return EvictAnswers(effect, pack(codes.keys()), bytes(codes.values()))


def plain(events: list[Event]) -> Any:
    """Return events as tuples of plain values, without empty texts and plugins."""
    out = []
    for event in events:
        values: list[object] = [type(event).__name__]
        for name in event.__struct_fields__:
            value = getattr(event, name)
            if name in ("texts", "plugins") and not value:
                continue
            values.append(unpack(value).tolist() if isinstance(value, bytes) else value)
        out.append(tuple(values))
    return out


def asked(events: list[Event]) -> BindsAsked:
    (found,) = [event for event in events if isinstance(event, BindsAsked)]
    return found


def open_bind(steps: Steps, pod: int = 1, node: int = 1) -> int:
    """Name and reserve one pod; return the effect that asks for its bind."""
    return asked(steps.when(named(pod), reserved({pod: node}))).effect
