"""Checks that no POST is sent before the record that asks for it is in the journal.

Void records count here: an owner that lost its journal may still send what it recorded before.
"""

from collections.abc import Iterator, Sequence

from muster.checker.inputs.facts import Facts
from muster.checker.inputs.history import ClusterHistory
from muster.checker.inputs.journals import Problem, decode_events
from shared.events.binding import BindsAsked
from shared.model.columns import unpack
from shared.model.ids import BINDING, Position

Demand = tuple[str, str, int]


def check(
    payloads: Sequence[bytes],
    landed_s: Sequence[float],
    facts: Facts,
    history: ClusterHistory,
    epoch: int,
) -> Iterator[Problem]:
    """Yield binds that were sent before the record with their BindsAsked had landed."""
    demanded = _demands(payloads, landed_s, facts)
    for post in history.posts:
        if post.epoch != epoch:
            continue
        at_s = demanded.get((post.uid, post.node, post.revision))
        if at_s is None or at_s > post.sent_s:
            text = f"{post.uid} to {post.node} r{post.revision} at {post.sent_s:.3f} s"
            yield ("record-first", f"{text}: sent before its record, which landed at {at_s}")


def _demands(
    payloads: Sequence[bytes], landed_s: Sequence[float], facts: Facts
) -> dict[Demand, float]:
    found: dict[Demand, float] = {}
    for position, payload in enumerate(payloads):
        for event in decode_events(payload, BINDING, Position(position)):
            if not isinstance(event, BindsAsked):
                continue
            columns = (unpack(c).tolist() for c in (event.ids, event.nodes, event.revisions))
            for pod, node, revision in zip(*columns, strict=True):
                name = facts.nodes[node].name if node in facts.nodes else ""
                key = (facts.uid_of.get(pod, ""), name, revision)
                found.setdefault(key, landed_s[position])
    return found
