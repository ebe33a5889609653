"""The values of expressions: those of Python, quantities, versions and optional values.

A quantity is counted in billionths and rounded up to one, as resource.Quantity does
(apimachinery, pkg/api/resource). Versions compare as semver 2.0.0 says (blang/semver).
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from shared.scheduling.claims.cel.errors import NO_OVERLOAD, EvaluationError

NANO = 10**9
NANO_MAX = ((1 << 63) - 1) * NANO
INT64_MAX = (1 << 63) - 1
EXPONENT_MAX = 18

_QUANTITY = re.compile(
    r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i))?",
    re.ASCII,
)
_DIGITS_MAX = 60
_FACTORS = {
    "n": 1,
    "u": 10**3,
    "m": 10**6,
    "": NANO,
    **{suffix: NANO * 1000 ** (at + 1) for at, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": NANO * 1024 ** (at + 1) for at, suffix in enumerate("KMGTPE")},
}
_NUMBER = r"(0|[1-9][0-9]*)"
_PART = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PART}(?:\.{_PART})*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)


class Quantity(Struct, frozen=True, order=True):
    """An amount in billionths."""

    nano: int


class Computed(Quantity, frozen=True):
    """A sum or difference. On the right of `==` it equals nothing: Kubernetes' Quantity.Equal takes
    only values, and sums are pointers.
    """


class Semver(Struct, frozen=True):
    """A version; `order` is its place among versions, in which build metadata counts nothing."""

    text: str
    order: tuple[Any, ...]

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Return major, minor and patch."""
        major, minor, patch = self.order[:3]
        return major, minor, patch


class Optional(Struct, frozen=True):
    """A value that may be missing."""

    present: bool
    value: Any = None


NONE = Optional(False)


def quantity(text: str) -> Quantity:
    """Return the quantity that a text means. Raises ValueError."""
    found = _QUANTITY.fullmatch(text)
    if found is None or len(found[2]) > _DIGITS_MAX:
        raise ValueError(f"{text!r} is not a quantity (such as 500m, 2, 1.5Gi or 1e3)")
    sign, number, exponent, suffix = found.groups()
    whole, _, fraction = number.partition(".")
    units, below = int(whole + fraction or "0"), 10 ** len(fraction)
    if exponent is None:
        units *= _FACTORS[suffix or ""]
    elif abs(int(exponent)) > EXPONENT_MAX:
        raise ValueError(f"{text!r} is out of range")
    else:
        power = int(exponent)
        units, below = units * NANO * 10 ** max(0, power), below * 10 ** max(0, -power)
    nano = min(-(-units // below), NANO_MAX)
    return Quantity(-nano if sign == "-" else nano)


def semver(text: str) -> Semver:
    """Return the version that a text means. Raises ValueError."""
    found = _SEMVER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a version such as 1.2.3")
    numbers = tuple(int(found[at]) for at in (1, 2, 3))
    # A version without a pre-release follows those with one; numbers precede words.
    parts = tuple(
        (0, int(one), "") if one.isdigit() else (1, 0, one) for one in (found[4] or "").split(".")
    )
    before = (0, parts) if found[4] else (1, ())
    return Semver(text, (*numbers, before))


def kind(value: object) -> str:
    """Return the name of a value's type."""
    found = _KINDS.get(type(value))
    if found is not None:
        return found
    return "map" if isinstance(value, Mapping) else "unknown"


_KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    type(None): "null",
    list: "list",
    tuple: "list",
    dict: "map",
    Quantity: "quantity",
    Computed: "quantity",
    Semver: "semver",
    Optional: "optional",
}
_OPAQUE = ("quantity", "semver")
_NUMBERS = ("int", "double")


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal. A quantity or version on the left compares with its kind
    only. Raises EvaluationError.
    """
    first, second = kind(left), kind(right)
    if "null" in (first, second):
        return first == second
    if first in _NUMBERS and second in _NUMBERS:
        return bool(left == right)
    if first != second:
        if first in _OPAQUE:
            raise EvaluationError(NO_OVERLOAD)
        return False
    if first == "quantity":
        if type(right) is Computed:
            raise EvaluationError(NO_OVERLOAD)
        return bool(left.nano == right.nano)
    if first == "semver":
        return bool(left.order == right.order)
    if first == "list":
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)
