"""Which records are stored compressed: large ones, and smaller ones while little is written."""

import time

import pytest

from shared.bus.sqlite.packing import ABOVE_BYTES, CALM_ABOVE_BYTES, CALM_BYTES, Packing

SMALL, MIDDLE, LARGE = CALM_ABOVE_BYTES, CALM_ABOVE_BYTES + 1, ABOVE_BYTES + 1


class Stored:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.packing = 100.0, Packing()
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def is_packed(self, size_bytes: int) -> bool:
        stored, was_bytes = self.packing.pack(bytes(size_bytes))
        assert was_bytes in (-1, size_bytes)
        assert (len(stored) < size_bytes) == (was_bytes > 0)
        return was_bytes > 0


@pytest.fixture
def stored(monkeypatch) -> Stored:
    return Stored(monkeypatch)


def test_in_quiet_times_all_but_the_smallest_records_are_compressed(stored: Stored):
    for _second in range(5):
        assert [stored.is_packed(size) for size in (SMALL, MIDDLE, LARGE)] == [False, True, True]
        stored.now_s += 1.0


def test_in_a_flood_large_records_are_compressed(stored: Stored):
    for _record in range(CALM_BYTES // MIDDLE):
        assert stored.is_packed(MIDDLE)
    assert not stored.is_packed(MIDDLE)
    assert stored.is_packed(LARGE)
    stored.now_s += 1.0
    assert not stored.is_packed(MIDDLE), "so much was written a second ago"
    stored.now_s += 1.0
    assert stored.is_packed(MIDDLE)


def test_incompressible_records_are_stored_as_they_are(stored: Stored):
    random = bytes((7 * number * number + number // 3) % 251 for number in range(MIDDLE))
    packed, was_bytes = stored.packing.pack(random)
    assert was_bytes == -1 or len(packed) < len(random)
