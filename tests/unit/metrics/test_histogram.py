"""Buckets as Prometheus reads them."""

from muster.metrics.histogram import Histogram, exponential


def test_bounds_grow_by_a_factor():
    assert exponential(0.5, 2, 4) == (0.5, 1, 2, 4)


def test_a_value_is_in_the_bucket_of_its_bound_and_in_all_above():
    found = Histogram((1, 2, 4))
    for value in (1, 1.5, 4, 5):
        found.add(value)
    assert list(found.buckets()) == [("1", 1), ("2", 2), ("4", 3), ("+Inf", 4)]
    assert found.total == 11.5


def test_a_value_can_be_counted_several_times():
    found = Histogram((1,))
    found.add(0.5, 3)
    assert (list(found.buckets()), found.total) == ([("1", 3), ("+Inf", 3)], 1.5)
