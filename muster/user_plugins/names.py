"""Finds wrong names in a user's plugin: methods that nothing calls, parts of a pod that `reads`
does not list, imports that do not exist.
"""

import ast
import importlib.util
from collections.abc import Iterator
from types import FunctionType

from muster.user_plugins.modules import MODULES
from shared.model.text import did_you_mean
from shared.scheduling.api.custom.plugin import METHODS, Plugin

MISSING = ("muster.plugin has no ", "there is no module ")
"""How the answers of `missing_import` begin."""
CALLED = {*(method for methods in METHODS.values() for method in methods), "room"}


def missing_import(node: ast.Import | ast.ImportFrom) -> str:
    """Return what does not exist of an import: a module, or a name of muster.plugin."""
    if isinstance(node, ast.ImportFrom) and node.module == "muster.plugin":
        public = MODULES["muster.plugin"]
        wrong = [one.name for one in node.names if one.name not in {"*", *public}]
        if wrong:
            return f"muster.plugin has no {wrong[0]}{did_you_mean(wrong[0], public)}"
    names = (
        [node.module or ""] if isinstance(node, ast.ImportFrom) else [n.name for n in node.names]
    )
    for name in names if not getattr(node, "level", 0) else ():
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            return f"there is no module {name}{did_you_mean(name, MODULES)}"
    return ""


def uncalled_method(kind: type[Plugin]) -> str:
    """Return a public method of a plugin's class that nothing calls; empty if there is none. Static
    methods and class methods are helpers.
    """
    own = (name for name, value in vars(kind).items() if isinstance(value, FunctionType))
    unknown = (name for name in own if name not in CALLED and not name.startswith("_"))
    return next(unknown, "")


def unread_parts(tree: ast.Module, kind: type[Plugin]) -> Iterator[tuple[int, str]]:
    """Yield (line, part) for each pod["PART"] in the class whose part is not in its `reads`."""
    for method in _methods(tree, kind.__name__):
        pod = method.args.args[1].arg
        for node in ast.walk(method):
            if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == pod:
                part = getattr(node.slice, "value", None)
                if isinstance(part, str) and part not in kind.reads:
                    yield node.lineno, part


def _methods(tree: ast.Module, name: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the methods of the class of this name whose first argument is a pod."""
    for kind in tree.body:
        if isinstance(kind, ast.ClassDef) and kind.name == name:
            for one in kind.body:
                if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                if one.name in CALLED - {"room"} and len(one.args.args) > 1:
                    yield one
