"""What is known of a value in the code of a plugin, as marks: that it is a set, that it outlasts
the question, that its text has an address. "*" before a mark: what it contains has it.
"""

import ast
import re
from collections.abc import Iterable

Marks = frozenset[str]
NONE: Marks = frozenset()
SET = "set"
VIEW = "view"
"""Keys or items of a dict: in order, until they are combined as sets are."""
ITERATOR = "iterator"
CHANGEABLE = "changeable"
"""A list, a dict, a set, an array: `+=` changes it in place."""
ADDRESS = "address"
"""An object whose text has its place in memory."""
DATE = "date"
"""The name of numpy's type of dates, which reads the clock for "now"."""
KEPT = "kept:"
"""It outlasts the question; what it is to be told in front of that follows."""
OF = "of:"
"""It is of the class of the file whose name follows."""
DEEPEST = 3

SETS = {"set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet"}
VIEWS = {"KeysView", "ItemsView"}
SAME = {"Annotated", "ClassVar", "Final", "InitVar", "Optional", "Required", "Union"}
VALUES_LAST = {"dict", "Mapping", "MutableMapping", "defaultdict", "Dict", "OrderedDict"}
LISTS = {
    *("list", "tuple", "Sequence", "Iterable", "Iterator", "Collection", "deque", "List"),
    *("Tuple", "MutableSequence"),
}
_DATE = re.compile(r"(^|[\s,<>=|])(M8|datetime64)\b")


def inside(marks: Marks) -> Marks:
    """Of what the value contains, or shows one after the other."""
    return frozenset({one[1:] for one in marks if one.startswith("*")} | kept(marks))


def holding(marks: Iterable[str]) -> Marks:
    """Of something that contains values with these marks."""
    passing = (VIEW, ITERATOR, CHANGEABLE)
    return frozenset(
        f"*{one}" for one in marks if one not in passing and not one.startswith("*" * DEEPEST)
    )


def held(marks: Marks) -> Marks:
    """Of another list of the same values."""
    return frozenset(one for one in marks if one.startswith("*"))


def kept(marks: Marks) -> Marks:
    """What is said of what outlasts the question."""
    return frozenset(one for one in marks if one.startswith(KEPT))


def alone(marks: Marks) -> Marks:
    """Of a copy of it."""
    return marks - kept(marks) - {ITERATOR}


def kinds(marks: Marks) -> list[str]:
    """The classes that it may be of."""
    return sorted(one.removeprefix(OF) for one in marks if one.startswith(OF))


def has_address(marks: Marks) -> bool:
    """Whether the value's text would have an address in memory."""
    return any(one.lstrip("*") in (ADDRESS, ITERATOR) for one in marks)


def of_text(text: str) -> Marks:
    """Of a text in the code."""
    return frozenset({DATE}) if _DATE.search(text) else NONE


def annotated(node: ast.expr | None) -> Marks:
    """Of a value with this annotation."""
    match node:
        case ast.Constant(value=str() as text):
            try:
                return annotated(ast.parse(text, mode="eval").body)
            except SyntaxError:
                return NONE
        case ast.BinOp(left=left, right=right):
            return annotated(left) | annotated(right)
        case ast.Subscript(value=value, slice=part):
            return _generic(_last(value), part)
        case ast.Name() | ast.Attribute():
            return _generic(_last(node), None)
        case _:
            return NONE


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _generic(name: str, part: ast.expr | None) -> Marks:
    if name in SETS:
        return frozenset({SET})
    if name in VIEWS:
        return frozenset({VIEW})
    parts = part.elts if isinstance(part, ast.Tuple) else [part]
    if name in SAME:
        return NONE.union(*map(annotated, parts))
    if name in VALUES_LAST:
        return holding(annotated(parts[-1]))
    if name in LISTS:
        return holding(NONE.union(*map(annotated, parts)))
    return frozenset({f"{OF}{name}"})
