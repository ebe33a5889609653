"""Columns: what is asked of them as a whole."""

import numpy as np
import pytest

from shared.model.columns import has_repeats


@pytest.mark.parametrize(
    ("ids", "repeats"),
    [([], False), ([7], False), ([3, 1, 2], False), ([3, 1, 3], True), ([5, 5], True)],
)
def test_a_value_that_stands_twice_is_found_wherever_it_stands(ids, repeats):
    assert has_repeats(np.array(ids, np.int64)) is repeats
