"""The window of a journal that a Kafka client holds."""

from hypothesis import given
from hypothesis import strategies as st

from shared.bus.kafka.feed import Feed
from shared.model.ids import JournalName

JOURNAL = JournalName("ingest/0")


@given(
    st.lists(st.one_of(st.binary(max_size=20), st.integers(0, 10)), max_size=50),
    st.integers(0, 100),
    st.integers(0, 60),
)
async def test_the_window_holds_exactly_what_was_added_and_not_left_behind(
    steps, start, limit_bytes
):
    feed = Feed(JOURNAL, start)
    held: dict[int, bytes] = {}
    for step in steps:
        if isinstance(step, bytes):
            held[feed.next] = step
            feed.add(step)
        else:
            below = min(feed.first + step, feed.next)
            feed.leave_behind(below)
            held = {at: payload for at, payload in held.items() if at >= below}
        assert feed.size_bytes == sum(map(len, held.values()))
        assert feed.read(feed.first, 1 << 30) == sorted(held.items())
        for position in range(feed.first - 1, feed.next + 1):
            assert feed.covers(position) == (position in held)
    some = feed.read(feed.first, limit_bytes)
    assert bool(some) == bool(held)
    sizes = [len(payload) for _, payload in some]
    assert len(some) <= 1 or sum(sizes[:-1]) < limit_bytes
    assert len(some) == len(held) or sum(sizes) >= limit_bytes


async def test_a_moved_window_is_empty_and_has_not_caught_up():
    feed = Feed(JOURNAL, 3)
    feed.add(b"x")
    feed.caught_up = True
    feed.move(7)
    assert (feed.first, feed.next, feed.size_bytes, feed.caught_up) == (7, 7, 0, False)
    assert not feed.covers(3)
