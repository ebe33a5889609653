"""What HTTP extenders say about the nodes of a case: called one after the other, as kube-scheduler
calls them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shared.adapters.extender_client import call
from shared.model.extenders import Extender, ExtenderError, filtered, prioritized

Objects = Mapping[str, Any]


class Left(NamedTuple):
    """Names of nodes that are left, and of the others what was said, with whether their pods could
    make room; nothing was said of those that are in neither.
    """

    nodes: tuple[str, ...]
    failed: dict[str, tuple[str, bool]]


def filter_nodes(extenders: Sequence[Extender], pod: Objects, nodes: Objects) -> Left:
    """Each is asked about what those before have left. Raises ExtenderError, unless who failed may
    be ignored.
    """
    left, failed = tuple(nodes), dict[str, tuple[str, bool]]()
    for one in extenders:
        if not left:
            break
        if not one.filter_verb or not one.is_interested(pod):
            continue
        asked = {name: nodes[name] for name in left}
        try:
            reply = asyncio.run(call(one, one.filter_verb, one.arguments(pod, asked)))
            found = filtered(one, left, reply)
        except ExtenderError:
            if one.ignorable:
                continue
            raise
        failed |= {name: (text, False) for name, text in found.unresolvable.items()}
        failed |= {name: (text, True) for name, text in found.failed.items()}
        left = found.nodes
    return Left(left, failed)


def score_nodes(
    extenders: Sequence[Extender], pod: Objects, nodes: Objects
) -> dict[str, dict[str, int]]:
    """By extender what it adds to the totals of nodes; one that fails adds nothing."""
    found: dict[str, dict[str, int]] = {}
    for one in extenders:
        if not one.is_interested(pod):
            continue
        if not one.prioritize_verb:
            found[one.url] = dict.fromkeys(nodes, 0)
            continue
        try:
            reply = asyncio.run(call(one, one.prioritize_verb, one.arguments(pod, nodes)))
            found[one.url] = prioritized(one, reply)
        except ExtenderError:
            continue
    return found
