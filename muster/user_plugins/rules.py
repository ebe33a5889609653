"""Names that a deciding plugin must not use because their results differ between machines or
processes. modules.py lists the names of modules that it may use.

The check finds mistakes and is no sandbox. It cannot see that a plugin depends on the order of a
set or keeps state between two questions: `muster score --check-plugin` and `muster replay` find
that.
"""

import ast
import re
from collections.abc import Iterator

from muster.user_plugins.determinism import BUILTINS_FORBIDDEN, is_numpy, offences
from muster.user_plugins.modules import MODULES, misused, not_public
from muster.user_plugins.names import MISSING, missing_import

NAMES = {
    *("breakpoint", "compile", "delattr", "eval", "exec", "getattr", "globals", "locals"),
    *("setattr", "vars", "exit", "help", "quit", "copyright", "credits", "license"),
}
ATTRIBUTES = {
    *("fromfile", "fromregex", "genfromtxt", "load", "loadtxt", "memmap", "save", "savetxt"),
    *("savez", "savez_compressed", "ctypeslib", "DataSource", "open_memmap", "datetime64"),
    *("empty", "empty_like", "random", "sys", "os", "modules", "tofile", "dump", "dumps", "ctypes"),
    *("lib", "attrgetter", "methodcaller"),
}
DATE = re.compile(r"M8\[|datetime64")
OF_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
"""Underscore methods of named tuples."""
INSTEAD = {
    "import": "import only modules that compute, and only their public names",
    "changing": "compute it in each call from the arguments",
    "a loop": "use sorted(...), or only test membership",
    "argsort": 'write kind="stable"',
    "np.add.reduce": "write .sum(dtype=np.int64), of integers",
    ".sum()": "write .sum(dtype=np.int64), of integers",
    ".empty": "use np.zeros or np.full",
    "from numpy": "import numpy as np",
}


def complaint(what: str) -> str:
    """Return why the file is refused, and what to do instead."""
    if what.startswith(MISSING):
        return what
    found = (text for start, text in INSTEAD.items() if what.startswith(start))
    advice = next(found, "use the arguments, and public names that are listed")
    return f"{what} is not allowed: a replay would differ; {advice} (docs/reference/plugins.md)"


def refused(tree: ast.Module) -> list[tuple[int, str]]:
    """Return (line, error), in order."""
    return sorted({*offences(tree), *_anywhere(tree), *misused(tree)})


def _anywhere(tree: ast.Module) -> Iterator[tuple[int, str]]:
    inside = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    private = _private(tree)
    for node in ast.walk(tree):
        what = ""
        if isinstance(node, ast.Import | ast.ImportFrom):
            what = missing_import(node) or _import(node)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            what = "changing a variable outside the method"
        elif isinstance(node, ast.Name):
            what = _name(node, is_alone=id(node) not in inside)
        elif isinstance(node, ast.Attribute) and _is_refused(node, private):
            what = f".{node.attr}"
        elif isinstance(node, ast.Constant) and DATE.search(str(node.value)):
            what = "numpy's type of dates, which reads the clock for 'now',"
        if what:
            yield getattr(node, "lineno", 0), what


def _import(node: ast.Import | ast.ImportFrom) -> str:
    if isinstance(node, ast.ImportFrom):
        if node.level or node.module not in MODULES:
            return f"import {'.' * node.level}{node.module or ''}"
        module = node.module
        for one in node.names:
            if one.name == "*" and module == "muster.plugin":
                continue
            if not_public(module, one.name) and module != "numpy":
                return f"import {one.name}"
        return ""
    for one in node.names:
        if one.name not in MODULES or (one.name == "numpy" and one.asname not in ("np", None)):
            return f"import {one.name}{f' as {one.asname}' if one.asname else ''}"
    return ""


def _name(node: ast.Name, is_alone: bool) -> str:
    if node.id in BUILTINS_FORBIDDEN:
        return f"{node.id}()"
    if node.id in NAMES or node.id.startswith("__"):
        return node.id
    if is_alone and is_numpy(node):
        return "numpy by another name than np.NAME"
    return ""


def _private(tree: ast.Module) -> set[str]:
    """Return the private names that the file defines."""
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found | OF_TUPLES


def _is_refused(node: ast.Attribute, private: set[str]) -> bool:
    if is_numpy(node.value) and node.attr == "random":
        return False  # reported with a better text elsewhere
    if node.attr in ("__init__", "__post_init__") and _is_super(node.value):
        return False
    if node.attr in ATTRIBUTES or node.attr.startswith("__"):
        return True
    return node.attr.startswith("_") and node.attr not in private


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "super"
