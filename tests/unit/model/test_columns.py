"""Columns: questions about them as a whole."""

import numpy as np
import pytest

from shared.model.columns import FEW_MAX, as_numbers, has_repeats, pack


@pytest.mark.parametrize(
    ("ids", "repeats"),
    [([], False), ([7], False), ([3, 1, 2], False), ([3, 1, 3], True), ([5, 5], True)],
)
def test_a_repeated_value_is_found_wherever_it_is(ids, repeats):
    assert has_repeats(np.array(ids, np.int64)) is repeats


@pytest.mark.parametrize("count", [0, 1, FEW_MAX, FEW_MAX + 1])
def test_a_column_reads_as_numbers_however_many_there_are(count):
    values = [(-3) ** at for at in range(count)]
    assert list(as_numbers(pack(values))) == values
