"""The checker's rules of one node, case by case."""

import pytest

from muster.checker.filters.fits import tolerates
from shared.model.objects import NO_SCHEDULE, PodSpec, Taint, Toleration


@pytest.mark.parametrize(
    ("operator", "there", "is_tolerated"),
    [
        ("Equal", "7", True),
        ("Gt", "8", True),
        ("Gt", "7", False),
        ("Lt", "6", True),
        ("Lt", "-10", True),
        ("Lt", "7", False),
        ("Lt", "06", False),
        ("Lt", "a", False),
        ("Gt", str(1 << 63), False),
    ],
)
def test_a_taint_is_compared_with_a_toleration(operator, there, is_tolerated):
    spec = PodSpec(tolerations=(Toleration("k", operator, "7"),))
    assert tolerates(spec, [Taint("k", there, NO_SCHEDULE)]) is is_tolerated
