"""The functions and operators that take values: each overload has the types of its arguments.

The names and meanings are those of cel-go and of Kubernetes' libraries for quantities and versions
(apiserver, pkg/cel/library).
"""

import math
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from shared.scheduling.claims.cel import values
from shared.scheduling.claims.cel.errors import EvaluationError, SelectorError
from shared.scheduling.claims.cel.patterns import pattern
from shared.scheduling.claims.cel.syntax import INT64_MAX, INT64_MIN
from shared.scheduling.claims.cel.values import Computed, Quantity, Semver

BOOL, INT, UINT, DOUBLE, STRING = "bool", "int", "uint", "double", "string"
QUANTITY, SEMVER, LIST, MAP = "quantity", "semver", "list", "map"


class Overload(Struct, frozen=True):
    """One meaning of a function; the first argument of a member function is its target."""

    arguments: tuple[str, ...]
    result: str
    call: Callable[..., Any]
    is_member: bool = False


def _within(value: int) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise EvaluationError("integer overflow")
    return value


def _divided(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return _within(quotient if (left < 0) == (right < 0) else -quotient)


def _rest(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    _divided(left, right)
    return left - right * _divided(left, right)


def _ratio(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _compared(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _parsed(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from error


def _is(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return holds


def _quantity_sum(left: Quantity, right: Quantity) -> Quantity:
    return Computed(left.nano + right.nano)


_PATTERNS: dict[str, re.Pattern[str]] = {}
PATTERNS_MAX = 256


def _matches(text: str, expression: str) -> bool:
    found = _PATTERNS.get(expression)
    if found is None:
        try:
            found = pattern(expression)
        except SelectorError as error:
            raise EvaluationError(str(error)) from error
        if len(_PATTERNS) >= PATTERNS_MAX:
            _PATTERNS.clear()
        _PATTERNS[expression] = found
    return found.search(text) is not None


def _lower(text: str) -> str:
    return "".join(chr(ord(one) + 32) if "A" <= one <= "Z" else one for one in text)


def _upper(text: str) -> str:
    return "".join(chr(ord(one) - 32) if "a" <= one <= "z" else one for one in text)


def _order(
    test: Callable[[Any, Any], bool],
) -> list[Overload]:
    same = [Overload((one, one), BOOL, test) for one in (BOOL, STRING)]
    numbers = [Overload((a, b), BOOL, test) for a in (INT, DOUBLE) for b in (INT, DOUBLE)]
    return same + numbers


def _member(arguments: tuple[str, ...], result: str, call: Callable[..., Any]) -> Overload:
    return Overload(arguments, result, call, is_member=True)


def _pair(test: Callable[[Any, Any], Any], result: str) -> list[Overload]:
    """Return a comparison of two quantities, and of two versions."""
    return [
        _member((QUANTITY, QUANTITY), result, lambda a, b: test(a.nano, b.nano)),
        _member((SEMVER, SEMVER), result, lambda a, b: test(a.order, b.order)),
    ]


def _parsers(name: str, type_name: str, read: Callable[[str], Any]) -> dict[str, list[Overload]]:
    capital = name[0].upper() + name[1:]
    return {
        name: [Overload((STRING,), type_name, lambda text: _parsed(read, text))],
        f"is{capital}": [Overload((STRING,), BOOL, _is(read))],
    }


def _number_of(at: int) -> list[Overload]:
    def number(version: Semver) -> int:
        return version.numbers[at]

    return [_member((SEMVER,), INT, number)]


FUNCTIONS: dict[str, list[Overload]] = {
    "_<_": _order(lambda a, b: a < b),
    "_<=_": _order(lambda a, b: a <= b),
    "_>_": _order(lambda a, b: a > b),
    "_>=_": _order(lambda a, b: a >= b),
    "_+_": [
        Overload((INT, INT), INT, lambda a, b: _within(a + b)),
        Overload((DOUBLE, DOUBLE), DOUBLE, lambda a, b: a + b),
        Overload((STRING, STRING), STRING, lambda a, b: a + b),
    ],
    "_-_": [
        Overload((INT, INT), INT, lambda a, b: _within(a - b)),
        Overload((DOUBLE, DOUBLE), DOUBLE, lambda a, b: a - b),
    ],
    "_*_": [
        Overload((INT, INT), INT, lambda a, b: _within(a * b)),
        Overload((DOUBLE, DOUBLE), DOUBLE, lambda a, b: a * b),
    ],
    "_/_": [Overload((INT, INT), INT, _divided), Overload((DOUBLE, DOUBLE), DOUBLE, _ratio)],
    # No value is unsigned, but the type of a result is not sure.
    "_%_": [Overload((INT, INT), INT, _rest), Overload((UINT, UINT), UINT, _rest)],
    "-_": [
        Overload((INT,), INT, lambda a: _within(-a)),
        Overload((DOUBLE,), DOUBLE, lambda a: -a),
    ],
    "!_": [Overload((BOOL,), BOOL, lambda a: not a)],
    "size": [
        Overload((one,), INT, len, is_member=member)
        for one in (STRING, LIST, MAP)
        for member in (False, True)
    ],
    "contains": [_member((STRING, STRING), BOOL, lambda a, b: b in a)],
    "startsWith": [_member((STRING, STRING), BOOL, str.startswith)],
    "endsWith": [_member((STRING, STRING), BOOL, str.endswith)],
    "matches": [
        Overload((STRING, STRING), BOOL, _matches, is_member=member) for member in (False, True)
    ],
    "lowerAscii": [_member((STRING,), STRING, _lower)],
    "upperAscii": [_member((STRING,), STRING, _upper)],
    "compareTo": _pair(_compared, INT),
    "isLessThan": _pair(lambda a, b: a < b, BOOL),
    "isGreaterThan": _pair(lambda a, b: a > b, BOOL),
    "sign": [Overload((QUANTITY,), INT, lambda a: _compared(a.nano, 0))],
    "add": [
        _member((QUANTITY, QUANTITY), QUANTITY, _quantity_sum),
        _member((QUANTITY, INT), QUANTITY, lambda a, b: Computed(a.nano + b * values.NANO)),
    ],
    "sub": [
        _member((QUANTITY, QUANTITY), QUANTITY, lambda a, b: Computed(a.nano - b.nano)),
        _member((QUANTITY, INT), QUANTITY, lambda a, b: Computed(a.nano - b * values.NANO)),
    ],
    "major": _number_of(0),
    "minor": _number_of(1),
    "patch": _number_of(2),
    **_parsers("quantity", QUANTITY, values.quantity),
    **_parsers("semver", SEMVER, values.semver),
}
