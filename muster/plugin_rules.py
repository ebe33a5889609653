"""What the code of a plugin that decides must not use beside what cores must not: what differs from
one machine or process to the next, and what is remembered from one question to the next.

Names and attributes are looked at, not what they stand for at run time. That finds mistakes; who
means to get around it does.
"""

import ast
from collections.abc import Iterator

from muster.determinism import BUILTINS_FORBIDDEN, is_numpy, is_set, offences

IMPORTS = {
    *("__future__", "bisect", "collections", "collections.abc", "dataclasses", "enum", "fractions"),
    *("functools", "heapq", "itertools", "math", "msgspec", "muster.plugin", "numpy"),
    *("numpy.typing", "operator", "re", "string", "typing"),
}
NAMES = {
    *("breakpoint", "compile", "delattr", "eval", "exec", "getattr", "globals", "locals"),
    *("setattr", "vars"),
}
ATTRIBUTES = {
    *("fromfile", "fromregex", "genfromtxt", "load", "loadtxt", "memmap", "save", "savetxt"),
    *("savez", "savez_compressed", "ctypeslib", "DataSource", "open_memmap", "datetime64"),
    *("empty", "empty_like", "random", "sys", "os", "modules", "tofile", "dump", "dumps", "ctypes"),
    *("lib", "attrgetter", "methodcaller"),
}
CHANGES = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "fill", "insert"),
    *("pop", "popitem", "popleft", "put", "remove", "resize", "reverse", "rotate", "setdefault"),
    *("sort", "update"),
}
"""Methods that change what they are called on."""
ORDERED = {
    *("list", "tuple", "iter", "next", "enumerate", "map", "filter", "zip", "min", "max"),
    *("join", "fromiter", "extend", "reduce"),
}
"""What has the order of a set, or a tie that goes by it, when it is given one."""
OWN = ("self", "cls")


def refused(tree: ast.Module) -> list[tuple[int, str]]:
    """Lines and what is wrong there, in order."""
    found = {*offences(tree), *_anywhere(tree)}
    outside = _outside(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            found |= set(_remembered(node, outside))
    return sorted(found)


def _anywhere(tree: ast.Module) -> Iterator[tuple[int, str]]:
    inside = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        what = ""
        if isinstance(node, ast.Import | ast.ImportFrom):
            what = _import(node)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            what = "changing a variable outside the method"
        elif isinstance(node, ast.Name):
            what = _name(node, is_alone=id(node) not in inside)
        elif isinstance(node, ast.Attribute) and _is_refused(node):
            what = f".{node.attr}"
        elif isinstance(node, ast.Call | ast.Starred) and _has_set_order(node):
            what = "the order of a set (sort it first)"
        if what:
            yield getattr(node, "lineno", 0), what


def _import(node: ast.Import | ast.ImportFrom) -> str:
    if isinstance(node, ast.ImportFrom):
        if node.level or node.module not in IMPORTS:
            return f"import {'.' * node.level}{node.module or ''}"
        names = (one.name for one in node.names)
        return next((f"import {one}" for one in names if one in ATTRIBUTES | NAMES), "")
    for one in node.names:
        if one.name not in IMPORTS or (one.name == "numpy" and one.asname not in ("np", None)):
            return f"import {one.name}{f' as {one.asname}' if one.asname else ''}"
    return ""


def _name(node: ast.Name, is_alone: bool) -> str:
    if node.id in BUILTINS_FORBIDDEN:
        return f"{node.id}()"
    if node.id in NAMES or node.id.startswith("__"):
        return node.id
    if is_alone and is_numpy(node):
        return "numpy by another name than np.NAME"
    if is_alone and node.id in OWN:
        return f"{node.id} by itself, without .NAME,"
    return ""


def _is_refused(node: ast.Attribute) -> bool:
    if is_numpy(node.value) and node.attr == "random":
        return False  # said in better words already
    return node.attr in ATTRIBUTES or node.attr.startswith("__")


def _has_set_order(node: ast.Call | ast.Starred) -> bool:
    if isinstance(node, ast.Starred):
        return is_set(node.value)
    func = node.func
    called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if called == "pop" and isinstance(func, ast.Attribute):
        return is_set(func.value)
    return called in ORDERED and any(map(is_set, node.args))


def _outside(tree: ast.Module) -> set[str]:
    """Names that the file gives to values, and of its classes."""
    found = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    kept = [node for node in tree.body if not isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return found | {name for node in kept for name in _bound(node)}


def _bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def _remembered(
    function: ast.FunctionDef | ast.Lambda, outside: set[str]
) -> Iterator[tuple[int, str]]:
    """What the function changes that is there after it."""
    kept = outside - set(_bound(function))
    for node in ast.walk(function):
        changed: ast.expr | None = None
        if isinstance(node, ast.Attribute | ast.Subscript):
            changed = None if isinstance(node.ctx, ast.Load) else node
        elif isinstance(node, ast.Call):
            changed = _changed(node)
        name = "" if changed is None else _root(changed)
        if name in OWN:
            yield getattr(node, "lineno", 0), "keeping something on self"
        elif name in kept:
            yield getattr(node, "lineno", 0), f"keeping something in {name}"


def _changed(call: ast.Call) -> ast.expr | None:
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr in CHANGES:
        return func.value
    if isinstance(func, ast.Name) and func.id == "next" and call.args:
        return call.args[0]
    return None


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
