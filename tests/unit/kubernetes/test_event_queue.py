"""Waiting events: what goes first, and how many are kept."""

import pytest

from shared.kubernetes.writing import event_queue
from shared.kubernetes.writing.event_queue import EventQueue, Lane, Waiting
from shared.ports.cluster import PodRef


def event(name: str, lane: Lane = Lane.BINDS) -> Waiting:
    return Waiting(lane, "Scheduled", PodRef(f"uid-{name}", "default", name), "node-0", 1, name)


def names(queue: EventQueue) -> list[str]:
    return [queue.pop().name for _ in range(len(queue))]


def test_events_leave_in_the_order_in_which_they_came():
    queue = EventQueue()
    for name in "abc":
        assert queue.put(event(name))
    assert names(queue) == ["a", "b", "c"]


def test_trouble_goes_before_binds_and_earlier_binds_go_last():
    queue = EventQueue()
    for name, lane in (("a", Lane.EARLIER_BINDS), ("b", Lane.BINDS), ("c", Lane.TROUBLE)):
        queue.put(event(name, lane))
    assert names(queue) == ["c", "b", "a"]


def test_the_events_of_a_flood_are_kept():
    queue = EventQueue()
    assert all(queue.put(event(str(number))) for number in range(100_000))
    assert names(queue) == [str(number) for number in range(100_000)]


def test_a_full_lane_takes_no_more_and_leaves_the_others_free(monkeypatch):
    monkeypatch.setattr(event_queue, "KEPT_MAX", 2)
    queue = EventQueue()
    assert [queue.put(event(name)) for name in "abc"] == [True, True, False]
    assert queue.put(event("d", Lane.TROUBLE))
    assert names(queue) == ["d", "a", "b"]


def test_an_event_that_could_not_be_written_is_the_next_of_its_lane(monkeypatch):
    monkeypatch.setattr(event_queue, "KEPT_MAX", 2)
    queue = EventQueue()
    queue.put(event("a"))
    queue.put(event("b"))
    failed = queue.pop()
    queue.put(event("c"))
    queue.put_back(failed)
    assert names(queue) == ["a", "b", "c"]


def test_an_empty_queue_has_no_next_event():
    queue = EventQueue()
    queue.put(event("a"))
    assert (queue.clear(), len(queue)) == (1, 0)
    with pytest.raises(IndexError):
        queue.pop()
