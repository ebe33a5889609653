"""What functions and methods make of the values they are given, in the code of a plugin.

Those of Python, of the modules that are allowed and of the file itself are known. Whoever else is
given a set takes its order, as far as one can tell.
"""

import ast
from typing import TYPE_CHECKING

from muster.user_plugins.marks import (
    ADDRESS,
    CHANGEABLE,
    DATE,
    ITERATOR,
    KEPT,
    NONE,
    OF,
    SET,
    VIEW,
    Marks,
    alone,
    has_address,
    held,
    holding,
    inside,
    kept,
    kinds,
)

if TYPE_CHECKING:
    from muster.user_plugins.flow import Flow, Scope

ORDER = "the order of a set (sort it first)"
SAME_KEY = "the order of a set where keys are equal (end the key with the thing itself)"
DATES = "numpy's type of dates, to which 'now' is the clock,"
FREE = {
    *("sorted", "len", "any", "all", "bool", "set", "frozenset", "min", "max", "sum", "type"),
    *("isinstance", "hasattr", "callable", "math.fsum", "typing.cast", "AssertionError"),
}
"""They give the same for every order of a set."""
LAZY = {"map", "filter"}
"""So does who gets no further than their result."""
BY_KEY = {"sorted", "min", "max"}
"""Of two that are equal by a key they take the first."""
TEXTS = {"str", "repr", "ascii", "format"}
ITERATORS = {"iter", "map", "filter", "zip", "enumerate", "reversed"}
PASSING = {*ITERATORS, "list", "tuple", "sorted", "heapq.merge", "heapq.nlargest"}
"""They show the values that they are given."""
CHANGEABLES = {"list", "dict", "set", "sorted", "bytearray"}
MADE = {"numpy.bool", "numpy.bool_", "numpy.dtype", "numpy.iinfo", "numpy.finfo", "numpy.double"}
CHANGES = {
    *("add", "append", "appendleft", "clear", "difference_update", "discard", "extend"),
    *("extendleft", "fill", "insert", "intersection_update", "move_to_end", "pop", "popitem"),
    *("popleft", "put", "remove", "resize", "reverse", "rotate", "setdefault", "setfield"),
    *("setflags", "sort", "subtract", "symmetric_difference_update", "update"),
    "byteswap",
}
"""Methods that change what they are called on."""
CHANGE_FIRST = {
    *("numpy.put", "numpy.copyto", "numpy.place", "numpy.putmask", "numpy.fill_diagonal"),
    *("numpy.put_along_axis", "heapq.heapify", "heapq.heappop", "heapq.heappush", "next"),
    *("heapq.heappushpop", "heapq.heapreplace", "bisect.insort", "bisect.insort_left"),
    "bisect.insort_right",
}
"""Functions that change what they are given first."""
ALGEBRA = {"union", "intersection", "difference", "symmetric_difference"}
TAKES_SETS = {
    *ALGEBRA,
    *("issubset", "issuperset", "isdisjoint", "difference_update", "intersection_update"),
    *("symmetric_difference_update", "remove", "discard", "count", "index"),
}
CONTAINS = {"append", "appendleft", "add", "insert", "setdefault"}
ONE_OF = {"get", "pop", "popleft", "setdefault"}
ANY_ORDER = {"named", "labelled", *ALGEBRA}
"""Methods of Muster's nodes, and of sets: all that is listed in a call, in any order."""
SHOWN = {
    "each": {f"{KEPT}changing a node, which the plugin is given,"},
    "pods": {ADDRESS, f"{KEPT}changing a pod, which the plugin is given,"},
}
"""What Muster's nodes list, and what is known of each."""
TYPE_AT = {
    **dict.fromkeys(("array", "asarray", "asanyarray", "ascontiguousarray", "zeros", "ones"), 1),
    **dict.fromkeys(("zeros_like", "ones_like", "arange", "astype", "fromiter", "identity"), 1),
    **dict.fromkeys(("full", "full_like", "linspace", "eye"), 2),
    "dtype": 0,
}
"""From which argument on one may be the type of what functions of numpy give."""
WHOLE = {"all", "any", "max", "min", "amax", "amin", "prod"}
"""Functions of numpy that with `where` leave nothing out of what they give."""


def dotted(flow: "Flow", node: ast.expr, scope: "Scope") -> str:
    """What an imported name, or a name of it, is in full; "" = it is something else."""
    if isinstance(node, ast.Name):
        return "" if node.id in scope.names else flow.imports.get(node.id, "")
    if isinstance(node, ast.Attribute):
        of = dotted(flow, node.value, scope)
        return f"{of}.{node.attr}" if of else ""
    return ""


def _called(flow: "Flow", node: ast.expr, scope: "Scope") -> str:
    """The same, with Python's own functions by their names."""
    if isinstance(node, ast.Name) and node.id not in scope.names:
        return flow.imports.get(node.id, node.id)
    return dotted(flow, node, scope)


def is_text(node: ast.expr) -> bool:
    """Whether it is seen to be a text."""
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def written(flow: "Flow", node: ast.AST, marks: Marks) -> None:
    """A value becomes text."""
    if any(one.lstrip("*") == SET for one in marks):
        flow.report(node, ORDER)
    elif has_address(marks):
        flow.report(node, "a text with an address in memory")


def call(flow: "Flow", node: ast.Call, scope: "Scope") -> Marks:
    """What it gives."""
    name = _called(flow, node.func, scope)
    given = [_given(flow, node, one, scope, name in FREE) for one in node.args]
    stars = [isinstance(one, ast.Starred) for one in node.args]
    given = [NONE if any(stars[: at + 1]) else marks for at, marks in enumerate(given)]
    named = {
        one.arg or "": _given(flow, node, one.value, scope, name in FREE) for one in node.keywords
    }
    if "out" in named:
        flow.changed(_keyword(node, "out"), scope, node)
    if node.args and (name in CHANGE_FIRST or (name.startswith("numpy.") and name.endswith(".at"))):
        flow.changed(node.args[0], scope, node)
    if isinstance(node.func, ast.Attribute) and not name:
        return _method(flow, node, scope, given, named)
    if not name:
        flow.value(node.func, scope)
    own = _own(flow, node, scope, given, named)
    if own is not None:
        return own
    _taken(flow, node, name, given, named)
    if name.startswith("numpy."):
        return _of_numpy(flow, node, name, given, named)
    return _given_back(flow, node, name, given)


def _given(flow: "Flow", node: ast.Call, arg: ast.expr, scope: "Scope", is_free: bool) -> Marks:
    """Of an argument."""
    if isinstance(arg, ast.Starred):
        marks = flow.value(arg.value, scope)
        if SET in marks and getattr(node.func, "attr", "") not in ANY_ORDER:
            flow.report(node, ORDER)
        return inside(marks)
    if is_free and isinstance(arg, ast.GeneratorExp | ast.ListComp):
        return flow.comprehension(arg, scope)
    return flow.value(arg, scope)


def _keyword(node: ast.Call, name: str) -> ast.expr:
    return next(one.value for one in node.keywords if one.arg == name)


def _taken(
    flow: "Flow", node: ast.Call, name: str, given: list[Marks], named: dict[str, Marks]
) -> None:
    """Who sees the order of a set."""
    if not any(SET in marks for marks in (*given, *named.values())):
        return
    if name in BY_KEY and "key" in named:
        if not _has_itself(_keyword(node, "key")):
            flow.report(node, SAME_KEY)
    elif (name == "sum" and not all(map(_of_integers, node.args[:1]))) or name not in (
        *FREE,
        *LAZY,
    ):
        flow.report(node, ORDER)


def _has_itself(key: ast.expr) -> bool:
    """Whether no two different things have one key: lambda one: (..., one)."""
    match key:
        case ast.Lambda(args=ast.arguments(args=[arg]), body=ast.Tuple(elts=elts)):
            return any(isinstance(one, ast.Name) and one.id == arg.arg for one in elts)
        case _:
            return False


def _of_integers(node: ast.expr) -> bool:
    """Whether only integers are added, which make the same sum in every order."""
    match node:
        case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id="int" | "len" | "ord"), *_]):
            return True
        case ast.Set(elts=elts):
            return all(map(_is_integer, elts))
        case ast.SetComp(elt=elt) | ast.GeneratorExp(elt=elt) | ast.ListComp(elt=elt):
            return _is_integer(elt)
        case _:
            return False


def _is_integer(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int()) | ast.Compare():
            return True
        case ast.Call(func=ast.Name(id="int" | "len" | "ord" | "bool")):
            return True
        case ast.UnaryOp(operand=operand):
            return _is_integer(operand)
        case _:
            return False


def _given_back(flow: "Flow", node: ast.Call, name: str, given: list[Marks]) -> Marks:
    """What functions of Python and of modules give."""
    first = given[0] if given else NONE
    if name in ("set", "frozenset"):
        return frozenset({SET, CHANGEABLE} if name == "set" else {SET})
    if name == "super":
        return frozenset({f"{KEPT}keeping something on self"})
    if name == "object":
        return frozenset({ADDRESS})
    if name in TEXTS and first:
        written(flow, node, first)
        return NONE
    if name == "next" or (name in ("min", "max") and len(given) == 1):
        return inside(first)
    if name == "functools.reduce":
        return inside(NONE.union(*given))
    if name in LAZY or name.startswith("itertools."):
        seen = {SET} if name in LAZY and any(SET in marks for marks in given) else NONE
        return _each(flow, node, given) | seen
    if name == "collections.defaultdict" and _last(node.args[:1]) in ("set", "frozenset"):
        return frozenset({f"*{SET}", CHANGEABLE})
    found = held(NONE.union(*given)) if name in PASSING else NONE
    if name in ITERATORS or name == "heapq.merge":
        found |= {ITERATOR}
    if name in CHANGEABLES or name.startswith("collections."):
        found |= {CHANGEABLE}
    return found


def _each(flow: "Flow", node: ast.Call, given: list[Marks]) -> Marks:
    """Of what is made of each value."""
    shown = NONE.union(*map(inside, given[1:]))
    function = _last(node.args[:1])
    if function in TEXTS:
        written(flow, node, shown)
        return frozenset({ITERATOR})
    if function in ("set", "frozenset"):
        return frozenset({ITERATOR, f"*{SET}"})
    return held(NONE.union(*given)) | {ITERATOR}


def _last(nodes: list[ast.expr]) -> str:
    return nodes[0].id if nodes and isinstance(nodes[0], ast.Name) else ""


def _of_numpy(
    flow: "Flow", node: ast.Call, name: str, given: list[Marks], named: dict[str, Marks]
) -> Marks:
    at = TYPE_AT.get(name.removeprefix("numpy."), len(given))
    dates = (*given[at:], named.get("dtype", NONE))
    if any(one.lstrip("*") == DATE for marks in dates for one in marks):
        flow.report(node, DATES)
    if "where" in named and "out" not in named and name.rpartition(".")[2] not in WHOLE:
        flow.report(node, "where= without out=, which leaves numbers that memory had,")
    is_one = name in MADE or name.rstrip("0123456789_") in (
        "numpy.int",
        "numpy.uint",
        "numpy.float",
    )
    return NONE if is_one else frozenset({CHANGEABLE})


# Methods


def _method(
    flow: "Flow", node: ast.Call, scope: "Scope", given: list[Marks], named: dict[str, Marks]
) -> Marks:
    func = node.func
    assert isinstance(func, ast.Attribute), "a method"
    base, attr = func.value, func.attr
    of = flow.value(base, scope)
    own = flow.method(of, attr)
    if own and kinds(of):
        return NONE.union(*(_bind(flow, one, given, named, skips=1, of=of) for one in own))
    if attr in CHANGES:
        flow.changed(base, scope, node)
    if SET in of and attr == "pop":
        flow.report(node, ORDER)
    all_given = NONE.union(*given, *named.values())
    if SET in all_given:
        _method_given_a_set(flow, node, scope, of)
    elif attr in CONTAINS:
        flow.put_in(base, NONE.union(*given[-1:]), scope)
    if attr == "format" and is_text(base):
        written(flow, node, all_given)
    is_of_type = attr in ("astype", "view") or "dtype" in named
    if is_of_type and any(one.lstrip("*") == DATE for one in all_given):
        flow.report(node, DATES)
    return _method_gives(flow, node, of, given, named)


def _method_given_a_set(flow: "Flow", node: ast.Call, scope: "Scope", of: Marks) -> None:
    func = node.func
    assert isinstance(func, ast.Attribute), "a method"
    base, attr = func.value, func.attr
    if attr in CONTAINS:
        flow.put_in(base, frozenset({SET}), scope)
    elif attr in TAKES_SETS or (attr == "update" and SET in of) or attr in ONE_OF:
        return
    elif not flow.method(of, attr):
        flow.report(node, ORDER)


def _method_gives(
    flow: "Flow", node: ast.Call, of: Marks, given: list[Marks], named: dict[str, Marks]
) -> Marks:
    func = node.func
    assert isinstance(func, ast.Attribute), "a method"
    attr = func.attr
    if attr in ALGEBRA:
        return frozenset({SET, CHANGEABLE})
    if attr in ONE_OF:
        return inside(of) | NONE.union(*given[1:])
    if attr in ("keys", "items") and not given:
        return frozenset({VIEW}) | of - {SET, CHANGEABLE, ITERATOR}
    if attr == "values" and not given:
        return of - {CHANGEABLE}
    if attr == "copy":
        return alone(of)
    if attr in SHOWN and ADDRESS in of:
        return holding(SHOWN[attr]) | {CHANGEABLE}
    own = flow.method(of, attr)
    return NONE.union(*(_bind(flow, one, given, named, skips=1, of=of) for one in own))


# Functions and classes of the file


def _own(
    flow: "Flow", node: ast.Call, scope: "Scope", given: list[Marks], named: dict[str, Marks]
) -> Marks | None:
    """What a function or a class of the file gives; None: it is of somebody else."""
    if not isinstance(node.func, ast.Name) or node.func.id not in scope.names:
        return None
    name = node.func.id
    if name in flow.functions:
        return _bind(flow, name, given, named, skips=0)
    kind = flow.classes.get(name)
    if kind is None:
        return None
    if f"{name}.__init__" in flow.functions:
        _bind(flow, f"{name}.__init__", given, named, skips=1)
    else:
        fields = [
            one.target.id
            for one in kind.body
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        ]
        for one, marks in (*zip(fields, given, strict=False), *named.items()):
            flow.learn(name, one, alone(marks))
    if _is_set(kind):
        return frozenset({SET, CHANGEABLE})
    return frozenset({f"{OF}{name}"}) | ({ADDRESS} if _has_no_text(flow, kind) else NONE)


def _bind(
    flow: "Flow",
    name: str,
    given: list[Marks],
    named: dict[str, Marks],
    skips: int,
    of: Marks = NONE,
) -> Marks:
    """What its parameters get, a method that of which it is; what it gives."""
    found = flow.returns.get(name, NONE)
    function = flow.functions[name]
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    if names[:1] == ["self"]:
        flow.params[name, "self"] = flow.params.get((name, "self"), NONE) | kept(of)
    names = names[skips if names[:1] in (["self"], ["cls"]) else 0 :]
    for arg, marks in (*zip(names, given, strict=False), *named.items()):
        flow.params[name, arg] = flow.params.get((name, arg), NONE) | marks
    if any(_decorator(one) in ("cache", "lru_cache") for one in function.decorator_list):
        found |= {f"{KEPT}keeping something in what {function.name} remembers"}
    if any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(function)):
        found |= {ITERATOR}
    return found


def _decorator(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_set(kind: ast.ClassDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id in ("set", "frozenset") for one in kind.bases)


def _has_no_text(flow: "Flow", kind: ast.ClassDef) -> bool:
    """Whether its objects are written as their place in memory."""
    return all(
        one in ("object", "Plugin") or (one in flow.classes and _is_plain(flow.classes[one]))
        for one in flow.bases(kind.name)
    )


def _is_plain(kind: ast.ClassDef) -> bool:
    own = {one.name for one in kind.body if isinstance(one, ast.FunctionDef)}
    is_plain = not own & {"__repr__", "__str__"} and all(
        isinstance(one, ast.Name) for one in kind.bases
    )
    return is_plain and not any("dataclass" in _decorator(one) for one in kind.decorator_list)
