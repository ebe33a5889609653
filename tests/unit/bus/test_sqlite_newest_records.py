"""The ring holds the newest records, in order, within its bytes, and never a wrong one."""

from hypothesis import given
from hypothesis import strategies as st

from shared.bus.sqlite.newest_records import Ring
from shared.model.ids import JournalName

A, B = JournalName("a/0"), JournalName("b/0")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.sampled_from([A, B]), st.integers(0, 30)),
        st.tuples(st.just("cut"), st.sampled_from([A, B]), st.integers(0, 12)),
        st.tuples(st.just("restart"), st.sampled_from([A, B]), st.integers(0, 4)),
    ),
    max_size=60,
)


@given(STEPS, st.integers(0, 100))
def test_the_ring_returns_pushed_records_and_stays_in_bounds(steps, limit_bytes):
    ring = Ring(limit_bytes)
    model: dict[JournalName, dict[int, bytes]] = {A: {}, B: {}}
    following = {A: 0, B: 0}
    for number, (what, journal, amount) in enumerate(steps):
        if what == "push":
            payload = bytes([number]) * amount
            model[journal][following[journal]] = payload
            ring.push(journal, following[journal], payload)
            following[journal] += 1
        elif what == "cut":
            ring.cut(journal, amount)
            model[journal] = {at: p for at, p in model[journal].items() if at >= amount}
        else:
            following[journal] += amount
            ring.restart(journal, following[journal])
            model[journal] = {}
        assert ring.size_bytes <= limit_bytes
        held_bytes = 0
        for name, pushed in model.items():
            held = [at for at in pushed if ring.read(name, at, 1)]
            # Only the newest, without a hole, each as it was pushed.
            assert held == sorted(pushed)[len(pushed) - len(held) :]
            if held:
                assert ring.read(name, held[0], 1 << 30) == [(at, pushed[at]) for at in held]
            held_bytes += sum(len(pushed[at]) for at in held)
        assert held_bytes == ring.size_bytes


def test_the_newest_stay_whichever_journal_they_are_of():
    ring = Ring(30)
    for position in range(3):
        ring.push(A, position, bytes(10))
    ring.push(B, 0, bytes(10))
    assert ring.read(A, 0, 100) == []
    assert [at for at, _ in ring.read(A, 1, 100)] == [1, 2]
    assert [at for at, _ in ring.read(B, 0, 100)] == [0]


def test_a_long_run_does_not_grow():
    ring = Ring(1_000)
    for position in range(20_000):
        ring.push(A, position, bytes(100))
        ring.cut(A, position - 3)
    assert ring.size_bytes <= 1_000
    assert len(ring._order) < 20
    assert len(ring._tails[A].records) < 3_000
