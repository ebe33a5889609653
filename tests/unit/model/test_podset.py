"""A set of pod ids that all end up in it: full pages cost nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model.columns import I64
from shared.model.podset import PAGE, PodSet

SOME = st.lists(st.lists(st.integers(0, 5 * PAGE), max_size=20), max_size=6)


def ids(*numbers: int) -> I64:
    return np.array(numbers, np.int64)


def of(first: int, end: int, *without: int) -> PodSet:
    """Return a set of the ids from `first` to before `end`, added in parts, except for some."""
    found = PodSet()
    for start in range(first, end, 1000):
        part = np.arange(start, min(end, start + 1000), dtype=np.int64)
        found.add(part[~np.isin(part, without)])
    return found


@given(SOME, st.integers(0, 3), st.integers(0, 3))
def test_a_set_holds_its_ids_before_and_after_a_snapshot(parts, first_page, pages):
    start, end = first_page * PAGE, (first_page + pages) * PAGE
    found, expected = of(start, end), set(range(start, end))
    for part in parts:
        found.add(ids(*part))
        expected |= set(part)
    asked = sorted(
        {start - 1, start, end - 1, end, *(one for part in parts for one in part)} - {-1}
    )
    for one in (found, PodSet.load(found.dump())):
        assert [pod for pod in asked if pod in one] == [pod for pod in asked if pod in expected]
        assert one.outside(asked) == [pod for pod in asked if pod not in expected]
        assert one.dump() == found.dump()


def test_a_dump_does_not_depend_on_the_order_of_additions():
    there, back = of(0, 3 * PAGE), PodSet()
    for pod in range(3 * PAGE - 1, -1, -1):
        back.add(ids(pod))
    assert there.dump() == back.dump()


@pytest.mark.parametrize("pages", [10, 1_000])
def test_full_pages_cost_nothing(pages):
    """200 pods a second are half a billion ids a month."""
    found = of(1, pages * PAGE, 5 * PAGE)
    assert len(found.partial) == 2  # no pod has id 0, and one pod is still there
    assert len(str(found.dump())) < 10_000


def test_ids_far_apart_cost_their_pages_only():
    found = PodSet()
    found.add(ids(1, 10**12))
    assert 10**12 in found
    assert 10**12 - 1 not in found
    assert len(found.partial) == 2


def test_older_snapshots_can_be_read():
    """They had one bit for every id."""
    bits = np.packbits(np.isin(np.arange(20), [1, 2, 19]), bitorder="little").tobytes()
    found = PodSet.load(bits)
    assert [pod for pod in range(30) if pod in found] == [1, 2, 19]
