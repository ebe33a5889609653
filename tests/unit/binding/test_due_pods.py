"""Due pods: the first one is known without looking at all."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.binding.core.due_pods import Due
from shared.model.ids import PodId

PODS, TIMES = st.integers(1, 6).map(PodId), st.integers(0, 8)
STEPS = st.lists(st.one_of(st.tuples(PODS, TIMES), st.tuples(PODS, st.none())), max_size=40)


@given(STEPS, TIMES)
def test_the_due_pods_equal_those_of_a_full_search(
    steps: list[tuple[PodId, int | None]], now_ms: int
):
    due, plain = Due(), dict[PodId, int]()
    for pod, at_ms in steps:
        if at_ms is None:
            assert due.pop(pod, None) == plain.pop(pod, None)
        else:
            due[pod] = plain[pod] = at_ms
        assert due == plain
        assert due.first_ms() == min(plain.values(), default=None)
        assert due.until(now_ms) == sorted(pod for pod, at in plain.items() if at <= now_ms)
    assert Due(sorted(due.items())).first_ms() == due.first_ms()


class Counted(Due):
    """Counts the pods that are looked at."""

    looks = 0

    def get(self, pod: PodId, default: Any = None) -> Any:
        self.looks += 1
        return super().get(pod, default)


def test_the_first_is_found_without_going_through_all():
    due = Counted()
    for pod in map(PodId, range(1, 10_001)):
        due[pod] = 1_000 + pod % 100
    for turn in range(100):
        assert due.first_ms() == 1_000
        assert due.until(999 - turn) == []
    assert due.looks < 1_000
