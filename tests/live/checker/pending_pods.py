"""Every pending pod, gang members and refused pods included, has a fresh message that was true when
it was decided, and no node would take the pod now.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.live.checker import gangs
from tests.live.checker.audit import stamp_s
from tests.live.checker.cluster_state import PODS, Change, World
from tests.live.checker.fits import CannotJudge, refuse_unknown
from tests.live.checker.inter_pod_rules import has_rules

MESSAGE_AGE_S = 60.0
DECIDED_WITHIN_S = 5.0
"""A message is written at most this long after the state that it describes, s."""
IN_FLIGHT_S = 5.0
"""Binds that a message counts are done at most this long after it was written, s."""
POST_FILTER = re.compile(" (?:no new claims to deallocate|preemption: )")
"""The start of the PostFilter plugins' part of a message."""


@dataclass
class _Waiting:
    """A pod, its message, and the change that set it; `truths` are the messages that
    would be true.
    """

    name: str
    pod: Any
    message: str
    written: Change
    alike: str
    truths: list[str] = field(default_factory=list)

    def is_confirmed(self) -> bool:
        return self.message in self.truths


def waits(
    changes: Sequence[Change], end: World, waiting: Mapping[str, Any], now_s: float
) -> list[str]:
    """Return what is wrong with these waiting pods (by key); `end` is the world after all
    changes.
    """
    problems: list[str] = []
    judged: list[_Waiting] = []
    for key, pod in waiting.items():
        name = key.removeprefix(PODS)
        conditions = pod.get("status", {}).get("conditions") or ()
        said = next((one for one in conditions if one["type"] == "PodScheduled"), None)
        if said is None or said["status"] != "False":
            problems.append(f"{name} is forgotten: no node, and no word why")
            continue
        message = said.get("message", "")
        age_s = now_s - stamp_s(said.get("lastProbeTime") or said["lastTransitionTime"])
        if age_s > MESSAGE_AGE_S:
            problems.append(f"{name} waits with a message of {age_s:.0f} s ago: {message}")
        try:
            refuse_unknown(pod)
            has_rules(pod)
        except CannotJudge as error:
            if not _is_refused(pod, message):
                problems.append(f"{name} waits, and it cannot be judged whether it must: {error}")
            continue
        if "" in _truths(end, pod):
            problems.append(f"{name} waits, and a node would take it: {message}")
        text = gangs.of_last_try(POST_FILTER.split(message)[0])
        alike = json.dumps([pod["spec"], pod["metadata"]["namespace"]], sort_keys=True)
        judged.append(_Waiting(name, pod, text, _written(changes, key, said), alike))
    _confirm(changes, judged)
    return problems + [
        f"{one.name} says {one.message!r} since {one.written.revision}; true is "
        f"{one.truths[-1] or 'that a node would have taken it'!r}"
        for one in judged
        if not one.is_confirmed()
    ]


def _truths(world: World, pod: Any) -> list[str]:
    """Return the messages that a pod may have; an empty text if it has nothing to wait for."""
    return gangs.truths(world, pod) if pod["spec"].get("workloadRef") else [world.message(pod)]


def _is_refused(pod: Any, message: str) -> bool:
    """Return whether the message names an existing field of the pod that keeps it from being
    scheduled.
    """
    path, _, rule = message.partition(": ")
    spec, _, field = path.partition(".")
    return (
        spec == "spec" and field.partition(".")[0].partition("[")[0] in pod["spec"] and rule != ""
    )


def _written(changes: Sequence[Change], key: str, said: Mapping[str, Any]) -> Change:
    """Return the change that set this condition."""
    for change in changes:
        status = change.value.get("status", {}) if change.key == key and change.value else {}
        if said in (status.get("conditions") or ()):
            return change
    raise AssertionError(f"{key}: its condition was never written")


def _confirm(changes: Sequence[Change], judged: Sequence[_Waiting]) -> None:
    """At some revision that the decision may have known of, its message must have been true; of
    what it decided itself before, the binds may still be on their way.
    """
    world = World()
    open_ = list(judged)
    for number, change in enumerate(changes):
        world.apply(change)
        until_s = changes[number + 1].time_s if number + 1 < len(changes) else float("inf")
        answers: dict[str, list[str]] = {}
        for one in open_:
            # The state after this change was in force until the next one.
            if until_s >= one.written.time_s - DECIDED_WITHIN_S:
                if one.alike not in answers:
                    answers[one.alike] = _truths(world, one.pod)
                one.truths += answers[one.alike]
        open_ = [
            one
            for one in open_
            if not one.is_confirmed() and change.time_s <= one.written.time_s + IN_FLIGHT_S
        ]
