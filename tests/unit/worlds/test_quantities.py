"""Quantity strings: exact, rounded up, and refused where Kubernetes refuses them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kubernetes.objects.quantities import INT64_MAX, milli, parse, units


@pytest.mark.parametrize(
    ("quantity", "amount"),
    [
        *(("0", 0), ("1", 1), ("+1", 1), ("-0", 0), (2, 2), ("1.", 1), (".5", Fraction(1, 2))),
        *(
            ("1k", 1000),
            ("1M", 10**6),
            ("1G", 10**9),
            ("1T", 10**12),
            ("1P", 10**15),
            ("2E", 2 * 10**18),
        ),
        *(("1Ki", 1024), ("1.5Gi", 3 << 29), ("1Ti", 1 << 40), ("1Ei", 1 << 60)),
        *(("100m", Fraction(1, 10)), ("5u", Fraction(5, 10**6)), ("7n", Fraction(7, 10**9))),
        *(
            ("1e3", 1000),
            ("1E3", 1000),
            ("12e-1", Fraction(6, 5)),
            (0.5, Fraction(1, 2)),
            (1e16, 10**16),
        ),
        ("0.1", Fraction(1, 10)),
    ],
)
def test_a_quantity_is_exact(quantity, amount):
    assert parse(quantity) == amount


@pytest.mark.parametrize(
    ("quantity", "rule"),
    [
        *(("-1", "negative"), ("-100m", "negative"), (-3, "negative"), ("1e400", "out of range")),
        *(("1e-400", "out of range"), ("9" * 41, "out of range"), ("", "not a quantity")),
        *(("1e" + "0" * 60, "out of range"), ("1kb", "not a quantity"), ("1 Gi", "not a quantity")),
        *(("1ki", "not a quantity"), ("Gi", "not a quantity"), ("1_000", "not a quantity")),
        *((True, "not a quantity"), (None, "not a quantity"), ([1], "not a quantity")),
        *(
            (float("inf"), "not a quantity"),
            (float("nan"), "not a quantity"),
            ("١", "not a quantity"),
        ),
    ],
)
def test_a_text_that_is_no_amount_is_refused(quantity, rule):
    with pytest.raises(ValueError, match=rule):
        parse(quantity)


@pytest.mark.parametrize(
    ("read", "quantity", "amount"),
    [
        (milli, "100m", 100),
        (milli, "1.5", 1500),
        (milli, "0.1m", 1),
        (milli, "1001u", 2),
        (units, "100m", 1),
        (units, "1.5Ki", 1536),
        (units, "0", 0),
        (units, "9223372036854775807", INT64_MAX),
    ],
)
def test_amounts_finer_than_the_unit_are_rounded_up(read, quantity, amount):
    assert read(quantity) == amount


@pytest.mark.parametrize(("read", "quantity"), [(units, "8Ei"), (milli, "1e16"), (units, 1 << 63)])
def test_beyond_int64_is_refused(read, quantity):
    with pytest.raises(ValueError, match="out of range"):
        read(quantity)


@given(st.integers(0, 10**15), st.integers(0, 9))
def test_safety_decimal_digits_are_never_lost(number, places):
    text = f"{number // 10**places}.{number % 10**places:0{places}d}" if places else str(number)
    assert parse(text) == Fraction(number, 10**places)
    assert units(text) == -(-number // 10**places)
