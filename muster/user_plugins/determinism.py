"""Finds operations in code whose results differ between machines or hash seeds.

Sums of floats, transcendental functions and unstable sorts differ between CPUs and numpy builds;
the order of a set differs between processes. Only calls are examined, not types: a dict filled in
set order goes unnoticed.
"""

import ast

NUMPY_FORBIDDEN = {
    *("sum", "nansum", "dot", "vdot", "inner", "matmul", "tensordot", "einsum"),
    *("std", "var", "mean", "average", "median"),
    *("log", "log2", "log10", "log1p", "exp", "exp2", "expm1", "power", "float_power"),
    *("sin", "cos", "tan", "tanh", "argpartition", "partition", "random"),
}
METHODS_FORBIDDEN = {"dot", "std", "var", "mean", "argpartition", "partition"}
BUILTINS_FORBIDDEN = {"hash", "id", "open", "print", "input"}


def is_numpy(node: ast.expr) -> bool:
    """Return whether the expression is the numpy module."""
    return isinstance(node, ast.Name) and node.id in {"np", "numpy"}


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _has_keyword(call: ast.Call, name: str) -> bool:
    return any(keyword.arg == name for keyword in call.keywords)


def _is_stable(call: ast.Call) -> bool:
    return any(
        keyword.arg == "kind"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value == "stable"
        for keyword in call.keywords
    )


def is_set(node: ast.expr) -> bool:
    """Return whether the expression is visibly a set."""
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"set", "frozenset"}
    )


def _attribute_offence(node: ast.Attribute) -> str | None:
    if is_numpy(node.value) and node.attr in NUMPY_FORBIDDEN:
        return f"np.{node.attr}"
    return None


def _call_offence(call: ast.Call) -> str | None:
    func = call.func
    if isinstance(func, ast.Name) and func.id in BUILTINS_FORBIDDEN:
        return f"{func.id}()"
    if not isinstance(func, ast.Attribute):
        return None
    if func.attr == "argsort" and not _is_stable(call):
        return "argsort without kind='stable'"
    if is_numpy(func.value):
        return None
    if func.attr == "sum" and not _has_keyword(call, "dtype"):
        return ".sum() without an integer dtype="
    # str has a partition method too, recognised by a literal separator.
    is_text = bool(call.args) and _is_text(call.args[0])
    text_method = is_text and func.attr == "partition"
    if func.attr in METHODS_FORBIDDEN and not text_method:
        return f".{func.attr}()"
    return None


def _loop_offence(node: ast.For | ast.comprehension) -> str | None:
    return "a loop over a set (sort it first)" if is_set(node.iter) else None


def offence(node: ast.AST) -> str | None:
    """Return what makes this node non-deterministic, or None."""
    if isinstance(node, ast.Attribute):
        return _attribute_offence(node)
    if isinstance(node, ast.Call):
        return _call_offence(node)
    if isinstance(node, ast.For | ast.comprehension):
        return _loop_offence(node)
    if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
        return "@ (matrix product)"
    if isinstance(node, ast.AsyncFunctionDef | ast.Await):
        return "async"
    if isinstance(node, ast.ImportFrom) and node.module in {"numpy", "numpy.random"}:
        return "from numpy import (write np.name, so that it can be checked)"
    return None


def _line(node: ast.AST) -> int:
    place = node.iter if isinstance(node, ast.comprehension) else node
    return int(getattr(place, "lineno", 0))


def offences(tree: ast.Module) -> list[tuple[int, str]]:
    """Return (line, offence) in the order of the tree."""
    found = []
    for node in ast.walk(tree):
        what = offence(node)
        if what is not None:
            found.append((_line(node), what))
    return found
