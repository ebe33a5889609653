"""Converts Kubernetes quantity strings to integers exactly, without floats.

The grammar is that of apimachinery's resource.Quantity: a decimal number with one suffix (n u m k M
G T P E, Ki Mi Gi Ti Pi Ei) or a decimal exponent. As there, fractions of the unit are rounded up.
Negative amounts and amounts beyond int64 are refused.
"""

import re
from fractions import Fraction

from shared.kubernetes.objects.errors import shown

INT64_MAX = (1 << 63) - 1
EXPONENT_MAX = 18

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[numkMGTPE]|[KMGTPE]i))?"
)
_DECIMAL = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000 ** (at + 1)) for at, suffix in enumerate("kMGTPE")},
}
_BINARY = {f"{suffix}i": Fraction(1024 ** (at + 1)) for at, suffix in enumerate("KMGTPE")}
_FACTORS = {**_DECIMAL, **_BINARY}
_DIGITS_MAX = 40


def parse(quantity: object) -> Fraction:
    """Return the exact amount. Raises ValueError with the rule it breaks."""
    text = _text(quantity)
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{shown(text)} is not a quantity (such as 500m, 2, 1.5Gi or 1e3)")
    number, exponent = match["number"], match["exponent"]
    if len(number) > _DIGITS_MAX or len(exponent or "") > _DIGITS_MAX:
        raise ValueError(f"{shown(text)} is out of range")
    if exponent and abs(int(exponent)) > EXPONENT_MAX:
        raise ValueError(f"{shown(text)} is out of range")
    factor = Fraction(10) ** int(exponent) if exponent else _FACTORS[match["suffix"] or ""]
    amount = Fraction(number.rstrip(".") if number[-1] == "." else number) * factor
    if match["sign"] == "-" and amount:
        raise ValueError(f"{shown(text)} is negative")
    return amount


def _text(quantity: object) -> str:
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise ValueError(f"{shown(quantity)} is not a quantity (such as 500m, 2, 1.5Gi or 1e3)")
    # YAML reads an unquoted 0.5 as a float; its shortest decimal form is what was written.
    return quantity.strip() if isinstance(quantity, str) else repr(quantity)


Exact = int | Fraction


def exact_units(quantity: object) -> Exact:
    """Return base units for sums that are rounded once: whole thousandths, to which the API server
    rounds every amount (SetDefaults_ResourceList). Raises ValueError.
    """
    amount = Fraction(rounded(parse(quantity) * 1000), 1000)
    _check_range(amount, quantity)
    return amount.numerator if amount.denominator == 1 else amount


def rounded(amount: Exact) -> int:
    """Return the amount rounded up."""
    return -(-amount // 1)


def _check_range(amount: Exact, quantity: object) -> None:
    if amount > INT64_MAX:
        raise ValueError(f"{shown(str(quantity))} is out of range")


def units(quantity: object) -> int:
    """Return base units (bytes, counts), rounded up. Raises ValueError."""
    return rounded(exact_units(quantity))


def milli(quantity: object) -> int:
    """Return thousandths (cpu), rounded up. Raises ValueError."""
    amount = rounded(parse(quantity) * 1000)
    _check_range(amount, quantity)
    return amount
