"""How far a flood of equal pods delays others of its priority, in decisions: pods that came later
and are sent to a shard before them. Pods are numbered in the order in which they came.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.queueing.core.config import UNITS_NEW_SIGNATURE, Config
from shared.events.queueing import Dispatched
from tests.unit.queueing.inputs import bound, ids, pending, queue, reserved, tried

WINDOW_MS, CREDITS = Config().reorder_window_ms, Config().credit_units
FLOODS, OTHERS = (1, 2, 3), tuple(range(4, 14))
WAYS: tuple[dict[str, Any], ...] = (
    *({}, {"max_batch": 10}, {"credit_units": 100}),
    *({"reorder_window_ms": 50}, {"strict_order": True}),
)


class Passing(NamedTuple):
    """A dispatch that passed `pod`: its signature, and its pods that came after this one."""

    pod: int
    sig: int
    pods: list[int]


def passing(sent: list[Dispatched]) -> Iterator[Passing]:
    """Yield each dispatch with younger pods before an older pod."""
    newest: list[int] = []
    for event in sent:
        for pod in ids(event):
            for before in (one for one, last in zip(sent, newest, strict=False) if last > pod):
                yield Passing(pod, before.sig, [one for one in ids(before) if one > pod])
        newest.append(max(ids(event)))


def played(seed: int, shards: int, **options: Any) -> tuple[dict[int, int], list[Dispatched]]:
    """Play up to three floods among single other pods while binds are slow. Return when each pod
    came, ms, and what queueing sent.
    """
    draw, others, now_ms = Random(seed), list(OTHERS), 1_000
    floods = FLOODS[: draw.randint(1, 3)]
    slow = draw.choice((1, 5, 40))
    steps = queue(shards, (0,) * (len(FLOODS) + len(OTHERS)), unbound_max=slow, **options)
    came: dict[int, int] = {}
    sent: list[Dispatched] = []
    unbound: list[int] = []
    turns = draw.randint(20, 50)
    while turns > 0 or unbound:
        turns, now_ms, events = turns - 1, now_ms + draw.choice((0, 1, 20, 90, 300)), []
        if unbound and (turns <= 0 or draw.random() < 0.4):
            events, unbound = [bound(*unbound)], []
        if turns > 0:
            wanted = [(draw.choice(floods), draw.randint(1, 12))]
            if others and draw.random() < 0.3:
                wanted.append((others.pop(), 1))
            for sig, count in wanted:
                pods = range(len(came) + 1, len(came) + 1 + count)
                came |= dict.fromkeys(pods, now_ms)
                events.append(pending(sig, *pods))
        new = tried(steps.when(*events, at_ms=now_ms))
        steps.given(*map(reserved, new))
        sent += new
        unbound += [pod for one in new for pod in ids(one)]
    assert sorted(pod for one in sent for pod in ids(one)) == sorted(came)
    return came, sent


@pytest.mark.slow
@settings(max_examples=40)
@given(st.integers(0, 1 << 32), st.integers(1, 3), st.sampled_from(WAYS))
def test_one_dispatch_of_each_signature_passes_a_pod_at_most(seed, shards, options):
    came, sent = played(seed, shards, **options)
    found = list(passing(sent))
    assert len({(one.pod, one.sig) for one in found}) == len(found)
    window_ms = 0 if "strict_order" in options else options.get("reorder_window_ms", WINDOW_MS)
    for one in found:
        assert not options.get("strict_order")
        assert came[max(one.pods)] - came[one.pod] <= window_ms
        assert len(one.pods) < options.get("max_batch", options.get("credit_units", CREDITS))


def test_the_property_sees_pods_that_are_passed():
    assert sum(len(one.pods) for seed in range(8) for one in passing(played(seed, 1)[1])) > 100


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, CREDITS - UNITS_NEW_SIGNATURE - 1),
        ({"max_batch": 50}, 49),
        ({"credit_units": 1_000}, 1_000 - UNITS_NEW_SIGNATURE - 1),
        ({"reorder_window_ms": 0}, 0),
        ({"strict_order": True}, 0),
    ],
)
def test_the_most_pods_that_pass_one(options, most):
    """A pod of the flood comes, then the other pod, then 30,000 of the flood in half a second."""
    steps = queue(1, (0, 0), unbound_max=1, **options)
    busy = tried(steps.when(pending(2, 1)))
    steps.given(*map(reserved, busy)).when(pending(1, 2), pending(2, 3), at_ms=2_000)
    came, sent = 3, list[Dispatched]()
    for late_ms in (1, 100, WINDOW_MS, WINDOW_MS + 1):
        flood = range(came + 1, came + 10_001)
        steps.when(pending(1, *flood), at_ms=2_000 + late_ms)
        came += len(flood)
    unbound = [1]
    while not any(one.sig == 2 for one in sent):
        new = tried(steps.when(bound(*unbound)))
        steps.given(*map(reserved, new))
        unbound = [pod for one in new for pod in ids(one)]
        sent += new
    others = next(at for at, one in enumerate(sent) if one.sig == 2)
    before = [pod for one in sent[:others] for pod in ids(one)]
    assert before[0] == 2
    assert len([pod for pod in before if pod > 3]) == most
