"""Members that kube-scheduler would not try together: refused as a group, with its words."""

from typing import Any

import pytest

from services.queueing.core.core import QueueingCore
from shared.events.base import Configured, Event
from shared.events.ingest import GangSet, PodsGone, SignatureDefined
from shared.events.queueing import GangFailed, GangShown, TryFailed
from shared.model.columns import pack
from shared.model.objects import PodSpec
from tests.support.steps import Steps
from tests.unit.queueing.inputs import gang_tries, ids, of_type, pending

SAME = "all pods in a single pod group should have the same "
PRIORITY = SAME + "priority as the pod group's priority, got 7 and 0"
SCHEDULER = SAME + '.spec.schedulerName set, got: "other" and "one"'
POLICY = SAME + "preemption policy, got Never and PreemptLowerPriority"
KEY = "default/g1"


def queue(version: str, *specs: PodSpec) -> Any:
    steps: Steps[Any] = Steps(QueueingCore(1))
    options = {"compatibility": version, "group_conditions": True}
    steps.at(1_000).given(Configured({"queueing": options}))
    for sig, spec in enumerate(specs, start=1):
        steps.given(SignatureDefined(sig, spec))
    return steps


def group(version: int = 1, priority: int | None = 0, key: str = KEY) -> GangSet:
    return GangSet(1, key, 2, 300_000, version, priority=priority)


def members(events: list[Event]) -> list[tuple[list[int], str]]:
    return [(ids(one), one.message) for one in of_type(events, TryFailed)]


ONE, HIGH = PodSpec(scheduler="one"), PodSpec(scheduler="one", priority=7)
OTHER, NEVER = PodSpec(scheduler="other"), PodSpec(scheduler="one", never_preempts=True)


@pytest.mark.parametrize(
    ("version", "spec", "message"),
    [
        ("1.35", OTHER, ""),
        ("1.36", OTHER, SCHEDULER),
        ("1.36", HIGH, ""),
        ("1.36", NEVER, ""),
        ("1.37", ONE, ""),
        ("1.37", OTHER, SCHEDULER),
        ("1.37", HIGH, PRIORITY),
        ("1.37", NEVER, POLICY),
    ],
)
def test_members_that_differ_are_not_tried(version, spec, message):
    steps = queue(version, ONE, spec)
    events = steps.when(group(), pending(1, 1, gang=1, key=KEY), pending(2, 2, gang=1, key=KEY))
    assert [one.message for one in of_type(events, GangFailed)] == ([message] if message else [])
    assert bool(gang_tries(events)) is not bool(message)
    events = steps.when()
    assert members(events) == ([([1], message), ([2], message)] if message else [])
    says = [(one.message, one.is_error) for one in of_type(events, GangShown)]
    assert says == ([(message, True)] if message and version == "1.37" else [])


@pytest.mark.parametrize(("priority", "tried"), [(7, True), (None, True), (8, False)])
def test_the_groups_own_priority_counts_if_it_is_known(priority, tried):
    steps = queue("1.37", HIGH)
    events = steps.when(group(priority=priority), pending(1, 1, 2, gang=1, key=KEY))
    assert bool(gang_tries(events)) is tried


@pytest.mark.parametrize("key", ["default/g1@Volcano", "default/w/g1", "default/g@volcano"])
def test_other_groups_may_have_members_that_differ(key):
    steps = queue("1.37", ONE, OTHER)
    both = pending(1, 1, gang=1, key=key), pending(2, 2, gang=1, key=key)
    assert gang_tries(steps.when(group(key=key), *both))


def test_a_group_is_tried_once_its_members_agree():
    steps = queue("1.37", ONE, HIGH)
    steps.when(group(), pending(1, 1, gang=1, key=KEY), pending(2, 2, gang=1, key=KEY))
    events = steps.when(PodsGone(pack([2])), pending(1, 3, gang=1, key=KEY), at_ms=1_500)
    assert gang_tries(events) == [], "its backoff goes on"
    assert gang_tries(steps.when(at_ms=20_000))


def test_a_changed_group_is_tried_at_once():
    steps = queue("1.37", HIGH)
    steps.when(group(), pending(1, 1, 2, gang=1, key=KEY))
    assert gang_tries(steps.when(group(2, priority=7), at_ms=1_001))


def test_the_first_pod_that_differs_is_named():
    """Pods of higher priority come first, then older ones."""
    steps = queue("1.37", ONE, OTHER, PodSpec(scheduler="third", priority=1))
    three = (pending(sig, sig, gang=1, key=KEY) for sig in (2, 1, 3))
    (failed,) = of_type(steps.when(*three, group()), GangFailed)
    assert failed.message == SAME + "priority as the pod group's priority, got 1 and 0"
