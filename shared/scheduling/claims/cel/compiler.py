"""Compiles a selector to a function of a device.

Each part of the expression becomes a closure over the variables, and has a type. Attributes have
the type `any`, which fits everywhere; what their values allow shows only for a device. Types that
can never fit are errors here, as in kube-apiserver. Sources: cel-go's checker and interpreter,
dynamic-resource-allocation/cel/compile.go.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, assert_never

from msgspec import Struct

from shared.scheduling.claims.cel.errors import NO_OVERLOAD, EvaluationError, SelectorError
from shared.scheduling.claims.cel.functions import FUNCTIONS
from shared.scheduling.claims.cel.patterns import pattern
from shared.scheduling.claims.cel.syntax import (
    Call,
    Index,
    Items,
    Literal,
    Name,
    Node,
    Select,
    parse,
)
from shared.scheduling.claims.cel.values import NONE, Optional, equal, kind

Type = str | tuple[Any, ...]
Variables = tuple[Any, ...]
Run = Callable[[Variables], Any]

ANY, BOOL, STRING, INT, DEVICE = "any", "bool", "string", "int", "device"
LOOSE = ("any", "dyn")
PARTS_MAX = 100
"""How deep parts may be nested, so that the stack suffices wherever a selector is compiled."""
NESTED_MAX = 2
"""How deep macros over lists and maps may be nested: two never exceed kube-scheduler's cost."""


class Domains(dict[str, Mapping[str, Any]]):
    """Values by domain and id; a domain that is not there is empty."""


class DeviceView(Struct, frozen=True):
    """What a selector sees of a device."""

    driver: str
    attributes: Domains
    capacity: Domains
    allowMultipleAllocations: bool = False


_FIELDS: dict[str, Type] = {
    "driver": STRING,
    "attributes": ("map", STRING, ("map", STRING, ANY)),
    "capacity": ("map", STRING, ("map", STRING, "quantity")),
    "allowMultipleAllocations": BOOL,
}
_MACROS = frozenset(("all", "exists", "exists_one", "existsOne", "map", "filter"))
_EMPTY: Mapping[str, Any] = {}


class Selector:
    """A compiled expression. `matches` raises EvaluationError when it has no result."""

    def __init__(self, expression: str) -> None:
        """Compile. Raises SelectorError."""
        self.expression = expression
        compiler = _Compiler()
        found, self._run = compiler.node(parse(expression), {"device": (0, DEVICE)})
        if found not in (BOOL, ANY):
            raise SelectorError(f"must evaluate to bool or the unknown type, not {_named(found)}")

    def matches(self, device: DeviceView) -> bool:
        """Return whether the device is selected. Raises EvaluationError."""
        try:
            found = self._run((device,))
        except RecursionError as error:
            raise EvaluationError("is nested too deep") from error
        if isinstance(found, bool):
            return found
        raise EvaluationError(f"CEL result of type {kind(found)} could not be converted to bool")


Scope = Mapping[str, tuple[int, Type]]
"""The variables by name, with their places and types."""
Part = tuple[Type, Run]


def _named(one: Type) -> str:
    return one if isinstance(one, str) else f"{one[0]}({', '.join(map(_named, one[1:]))})"


def _fits(given: Type, wanted: Type) -> bool:
    if given == wanted or given in LOOSE or wanted in LOOSE:
        return True
    if "null" in (given, wanted):
        return {given, wanted} & {"quantity", "semver"} != set()
    if isinstance(given, str) or isinstance(wanted, str):
        return wanted in ("list", "map") and given[0] == wanted
    return given[0] == wanted[0] and all(map(_fits, given[1:], wanted[1:]))


def _joined(first: Type, second: Type) -> Type:
    return second if second in LOOSE else first


def _no_match(function: str, types: tuple[Type, ...]) -> SelectorError:
    given = ", ".join(map(_named, types))
    return SelectorError(f"found no matching overload for '{function}' applied to '({given})'")


class _Compiler:
    def __init__(self) -> None:
        self._nested = self._depth = 0

    def node(self, node: Node, scope: Scope) -> Part:
        """Return the type of a part of the expression, and its function. Raises SelectorError."""
        self._depth += 1
        if self._depth > PARTS_MAX:
            raise SelectorError(f"has parts nested more than {PARTS_MAX} deep")
        found = self._node(node, scope)
        self._depth -= 1
        return found

    def _node(self, node: Node, scope: Scope) -> Part:
        match node:
            case Literal(value):
                return kind(value), lambda _: value
            case Name(name):
                return _variable(name, scope)
            case Select():
                return self._select(node, scope)
            case Index():
                return self._index(node, scope)
            case Items(items):
                return self._list(items, scope)
            case Call():
                return self._call(node, scope)
            case _:
                assert_never(node)

    def _select(self, node: Select, scope: Scope) -> Part:
        found, run = self.node(node.operand, scope)
        inner, is_optional = _unwrapped(found)
        if inner == DEVICE:
            if node.field not in _FIELDS:
                raise SelectorError(f"undefined field '{node.field}'")
            if node.optional:
                raise SelectorError("optional fields of the device itself are not supported")
            return _FIELDS[node.field], lambda scope: getattr(run(scope), node.field)
        result = _item_type(inner, STRING, f"'.{node.field}'")
        return _item(result, run, lambda _: node.field, is_optional or node.optional, found)

    def _index(self, node: Index, scope: Scope) -> Part:
        found, run = self.node(node.operand, scope)
        key_type, key = self.node(node.key, scope)
        inner, is_optional = _unwrapped(found)
        result = _item_type(inner, key_type, "'_[_]'")
        return _item(result, run, key, is_optional or node.optional, found)

    def _list(self, items: tuple[Node, ...], scope: Scope) -> Part:
        parts = [self.node(one, scope) for one in items]
        types = ["dyn" if one in LOOSE else one for one, _ in parts] or ["dyn"]
        element = types[0]
        for one in types:
            if one != element:
                raise SelectorError(f"expected type '{_named(element)}' but found '{_named(one)}'")
        runs = [run for _, run in parts]
        return ("list", element), lambda scope: [run(scope) for run in runs]

    def _call(self, node: Call, scope: Scope) -> Part:
        name, count = node.function, len(node.arguments)
        if name == "has" and node.target is None and count == 1:
            return self._has(node.arguments[0], scope)
        if name == "bind" and node.target == Name("cel") and count == 3:
            return self._bind(node.arguments, scope)
        if name in _MACROS and node.target is not None and count == 2:
            return self._macro(name, node.target, node.arguments, scope)
        if isinstance(node.target, Name) and node.target.name == "optional":
            return self._optional(name, node.arguments, scope)
        nodes = node.arguments if node.target is None else (node.target, *node.arguments)
        parts = [self.node(one, scope) for one in nodes]
        types, runs = tuple(one for one, _ in parts), [run for _, run in parts]
        special = self._special(node, types, runs)
        if special is not None:
            return special
        if name not in FUNCTIONS:
            raise SelectorError(f"the function '{name}' is not supported by muster")
        if name == "matches" and isinstance(node.arguments[-1], Literal):
            pattern(str(node.arguments[-1].value))
        return _function(name, types, runs, is_member=node.target is not None)

    def _special(self, node: Call, types: tuple[Type, ...], runs: list[Run]) -> Part | None:
        """Return what takes values of all types, or does not need all of its arguments."""
        match node.function, len(runs):
            case "_&&_" | "_||_", 2:
                _all_bool(node.function, types)
                return BOOL, _logic(runs[0], runs[1], decides=node.function == "_||_")
            case "_?_:_", 3:
                if not _fits(types[0], BOOL) or not _fits(types[1], types[2]):
                    raise _no_match("_?_:_", types)
                return _joined(types[1], types[2]), _condition(*runs)
            case "_==_" | "_!=_", 2:
                if not _fits(*types):
                    raise _no_match(node.function, types)
                left, right = runs
                if node.function == "_==_":
                    return BOOL, lambda scope: equal(left(scope), right(scope))
                return BOOL, lambda scope: _differ(left(scope), right(scope))
            case "_in_", 2:
                return self._in(node, types, runs)
            case ("orValue" | "or", 2) | ("hasValue" | "value", 1) if (
                node.target is not None and types[0][0] == "optional"
            ):
                return _of_optional(node.function, types, runs)
        return None

    def _in(self, node: Call, types: tuple[Type, ...], runs: list[Run]) -> Part:
        item, held = types
        if held not in LOOSE and (held[0] not in ("list", "map") or not _fits(item, held[1])):
            raise _no_match("_in_", types)
        is_set = isinstance(node.arguments[1], Items) and all(
            isinstance(one, Literal) and one.value is not None for one in node.arguments[1].items
        )
        left, right = runs
        return BOOL, lambda scope: _contains(left(scope), right(scope), is_set)

    def _has(self, node: Node, scope: Scope) -> Part:
        if not isinstance(node, Select) or node.optional:
            raise SelectorError("invalid argument to has() macro")
        found, run = self.node(node.operand, scope)
        inner, _ = _unwrapped(found)
        if inner == DEVICE and node.field in _FIELDS:
            return BOOL, lambda _: True
        _item_type(inner, STRING, f"'.{node.field}'")
        return BOOL, lambda scope: _lookup(run(scope), node.field, optional=True).present

    def _bind(self, nodes: tuple[Node, ...], scope: Scope) -> Part:
        name, given, result = nodes
        if not isinstance(name, Name):
            raise SelectorError("cel.bind() variable names must be simple identifiers")
        value_type, value = self.node(given, scope)
        place = 1 + max(place for place, _ in scope.values())
        found, run = self.node(result, {**scope, name.name: (place, value_type)})

        def bound(variables: Variables) -> Any:
            try:
                held = value(variables)
            except EvaluationError as error:
                held = error  # raised where the variable is read
            return run((*variables[:place], held))

        return found, bound

    def _macro(self, name: str, target: Node, nodes: tuple[Node, ...], scope: Scope) -> Part:
        variable, body = nodes
        if not isinstance(variable, Name):
            raise SelectorError("argument is not an identifier")
        over, items = self.node(target, scope)
        if over != "dyn" and over[0] not in ("list", "map"):
            raise SelectorError(
                f"expression of type '{_named(over)}' cannot be range of a comprehension"
            )
        if self._nested == NESTED_MAX:
            raise SelectorError(f"macros nested more than {NESTED_MAX} deep are not supported")
        self._nested += 1
        element = "dyn" if over == "dyn" else over[1]
        place = 1 + max(place for place, _ in scope.values())
        found, run = self.node(body, {**scope, variable.name: (place, element)})
        self._nested -= 1
        if name != "map":
            _all_bool(name, (found,))

        def each(variables: Variables) -> list[tuple[Any, Callable[[], Any]]]:
            held = items(variables)
            if kind(held) not in ("list", "map"):
                raise EvaluationError(NO_OVERLOAD)
            before = variables[:place]
            return [(one, partial(run, (*before, one))) for one in held]

        return _folded(name, element, found, each)

    def _optional(self, name: str, nodes: tuple[Node, ...], scope: Scope) -> Part:
        if name == "none" and not nodes:
            return ("optional", "dyn"), lambda _: NONE
        if name == "of" and len(nodes) == 1:
            found, run = self.node(nodes[0], scope)
            return ("optional", found), lambda scope: Optional(True, run(scope))
        raise SelectorError(f"the function 'optional.{name}' is not supported by muster")


def _variable(name: str, scope: Scope) -> Part:
    if name not in scope:
        raise SelectorError(f"undeclared reference to '{name}'")
    place, found = scope[name]

    def read(variables: Variables) -> Any:
        value = variables[place]
        if isinstance(value, EvaluationError):
            raise value
        return value

    return found, read


def _unwrapped(found: Type) -> tuple[Type, bool]:
    """Return the type inside an optional one, and whether it is optional."""
    return (found[1], True) if found[0] == "optional" else (found, False)


def _item_type(found: Type, key: Type, what: str) -> Type:
    """Return the type of a list's or map's items. Raises SelectorError."""
    if found in LOOSE:
        return "dyn"
    if found[0] == "map" and _fits(key, found[1]):
        return found[2]
    if found[0] == "list" and _fits(key, INT):
        return found[1]
    raise _no_match(what, (found, key))


def _item(result: Type, run: Run, key: Run, optional: bool, found: Type) -> Part:
    if not optional:
        return result, lambda scope: _lookup(run(scope), key(scope), optional=False).value
    inner_optional = found[0] == "optional"

    def look(scope: Variables) -> Optional:
        held = run(scope)
        if inner_optional:
            if not held.present:
                return NONE
            held = held.value
        return _lookup(held, key(scope), optional=True)

    return ("optional", result), look


def _lookup(held: Any, key: Any, *, optional: bool) -> Optional:
    """Return an item of a map or list. Raises EvaluationError if it is missing and not optional."""
    if isinstance(held, Domains):
        return Optional(True, held.get(key, _EMPTY) if isinstance(key, str) else _EMPTY)
    match kind(held):
        case "map":
            if isinstance(key, str) and key in held:
                return Optional(True, held[key])
            if not optional:
                raise EvaluationError(f"no such key: {key}")
            return NONE
        case "list":
            if kind(key) != INT:
                raise EvaluationError(NO_OVERLOAD)
            if 0 <= key < len(held):
                return Optional(True, held[key])
            if not optional:
                raise EvaluationError(f"index out of bounds: {key}")
            return NONE
        case "optional":
            return _lookup(held.value, key, optional=True) if held.present else NONE
        case _:
            raise EvaluationError(NO_OVERLOAD)


def _all_bool(function: str, types: tuple[Type, ...]) -> None:
    if not all(_fits(one, BOOL) for one in types):
        raise _no_match(function, types)


def _decided(calls: Iterable[Callable[[], Any]], decides: bool) -> bool:
    """Return `or` (decided by True) or `and` (by False): one value that decides makes up for errors
    of all others. Raises EvaluationError, the first one.
    """
    failure: EvaluationError | None = None
    for call in calls:
        try:
            found = call()
        except EvaluationError as error:
            failure = failure or error
            continue
        if not isinstance(found, bool):
            failure = failure or EvaluationError(NO_OVERLOAD)
        elif found == decides:
            return decides
    if failure is not None:
        raise failure
    return not decides


def _logic(left: Run, right: Run, *, decides: bool) -> Run:
    return lambda scope: _decided((partial(left, scope), partial(right, scope)), decides)


def _condition(test: Run, then: Run, otherwise: Run) -> Run:
    def run(scope: Variables) -> Any:
        found = test(scope)
        if not isinstance(found, bool):
            raise EvaluationError(NO_OVERLOAD)
        return then(scope) if found else otherwise(scope)

    return run


def _differ(left: Any, right: Any) -> bool:
    """Return whether two values are not equal, or cannot be compared (interpreter, evalNe)."""
    try:
        return not equal(left, right)
    except EvaluationError:
        return True


def _contains(item: Any, held: Any, is_set: bool) -> bool:
    """Return whether a list or map has an item; `is_set` for a list of constants, which cel-go
    keeps as a set: a version cannot be looked up there.
    """
    match kind(held):
        case "map":
            return isinstance(item, str) and item in held
        case "list":
            if is_set and kind(item) == "semver":
                raise EvaluationError("internal error: runtime error: hash of unhashable type")
            for one in held:
                try:
                    if equal(item, one):
                        return True
                except EvaluationError:
                    continue
            return False
        case _:
            raise EvaluationError(NO_OVERLOAD)


def _of_optional(function: str, types: tuple[Type, ...], runs: list[Run]) -> Part:
    held, inner = runs[0], types[0][1]
    match function:
        case "hasValue":
            return BOOL, lambda scope: held(scope).present
        case "value":
            return inner, lambda scope: _value(held(scope))
    if function == "or":
        if not _fits(types[1], types[0]):
            raise _no_match(function, types)
        return types[0], lambda scope: one if (one := held(scope)).present else runs[1](scope)
    if not _fits(types[1], inner):
        raise _no_match(function, types)
    joined = _joined(inner, types[1])
    return joined, lambda scope: one.value if (one := held(scope)).present else runs[1](scope)


def _value(held: Optional) -> Any:
    if not held.present:
        raise EvaluationError("optional.none() dereference")
    return held.value


def _function(name: str, types: tuple[Type, ...], runs: list[Run], *, is_member: bool) -> Part:
    """Return the call of the overload that fits the types, or the values if several may fit."""
    found = [
        one
        for one in FUNCTIONS[name]
        if one.is_member is is_member
        and len(one.arguments) == len(types)
        and all(map(_fits, types, one.arguments))
    ]
    if not found:
        raise _no_match(name, types)
    results = {one.result for one in found}
    result = results.pop() if len(results) == 1 else "dyn"
    by_kinds = {one.arguments: one.call for one in found}
    if len(runs) == 1:
        (only,) = runs
        return result, lambda scope: _chosen(by_kinds, (only(scope),))
    return result, lambda scope: _chosen(by_kinds, tuple([run(scope) for run in runs]))


def _chosen(by_kinds: Mapping[tuple[str, ...], Callable[..., Any]], given: tuple[Any, ...]) -> Any:
    call = by_kinds.get(tuple(map(kind, given)))
    if call is None:
        raise EvaluationError(NO_OVERLOAD)
    return call(*given)


Each = Callable[[Variables], list[tuple[Any, Callable[[], Any]]]]


def _folded(name: str, element: Type, found: Type, each: Each) -> Part:
    """Return a macro; `each` has the items, and what the body says about each."""
    match name:
        case "map":
            return ("list", found), lambda scope: [call() for _, call in each(scope)]
        case "filter":
            return ("list", element), lambda scope: [
                one for one, call in each(scope) if _truth(call())
            ]
        case "all" | "exists":
            decides = name == "exists"
            return BOOL, lambda scope: _decided((call for _, call in each(scope)), decides)
        case _:
            return BOOL, lambda scope: sum(_truth(call()) for _, call in each(scope)) == 1


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(NO_OVERLOAD)
    return value
