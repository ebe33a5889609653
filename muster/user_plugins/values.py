"""What is known of an expression in the code of a plugin, and what is wrong in it."""

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.user_plugins import calls
from muster.user_plugins.calls import ORDER, dotted, is_text, written
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
    held,
    holding,
    inside,
    kept,
    of_text,
)

if TYPE_CHECKING:
    from muster.user_plugins.flow import Flow, Scope

OWN = ("self", "cls")
ON_SELF = f"{KEPT}keeping something on self"
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
COMBINES = ast.BitAnd | ast.BitOr | ast.BitXor | ast.Sub


def value(flow: "Flow", node: ast.expr | None, scope: "Scope") -> Marks:
    """What is known of it; what is wrong in it is told."""
    match node:
        case None:
            return NONE
        case ast.Constant(value=value):
            return of_text(value) if isinstance(value, str) else NONE
        case ast.Name(id=name):
            return _advanced(flow, node, _name(flow, name, scope), scope)
        case ast.Attribute(value=base, attr=attr):
            return _advanced(flow, node, _attribute(flow, base, attr, scope), scope)
        case ast.Call():
            return calls.call(flow, node, scope)
        case ast.Subscript(value=base, slice=at):
            return _subscript(flow, base, at, scope)
        case ast.BinOp():
            return _combined(flow, node, scope)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            return comprehension(flow, node, scope)
        case ast.NamedExpr(target=target, value=inner):
            marks = flow.value(inner, scope)
            flow.store(target, marks, scope, inner)
            return marks
        case ast.Lambda():
            flow.defaults(node.args, scope)
            flow.function(node, scope.branch())
            return frozenset({ADDRESS})
        case _:
            return _other(flow, node, scope)


def _other(flow: "Flow", node: ast.expr, scope: "Scope") -> Marks:
    match node:
        case ast.IfExp(test=test, body=body, orelse=orelse):
            flow.value(test, scope)
            return flow.value(body, scope) | flow.value(orelse, scope)
        case ast.BoolOp(values=values):
            return NONE.union(*(flow.value(one, scope) for one in values))
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            marks = NONE.union(*(_element(flow, one, scope) for one in elts))
            return marks | {CHANGEABLE} if isinstance(node, ast.List) else marks
        case ast.Set(elts=elts):
            for one in elts:
                flow.value(one.value if isinstance(one, ast.Starred) else one, scope)
            return frozenset({SET, CHANGEABLE})
        case ast.Dict(keys=keys, values=values):
            _all(flow, keys, scope)
            found = [
                holding(marks) if key is not None else held(marks)
                for key, marks in zip(keys, _all(flow, values, scope), strict=True)
            ]
            return NONE.union(*found) | {CHANGEABLE}
        case ast.JoinedStr(values=values):
            _all(flow, values, scope)
            return NONE
        case ast.FormattedValue(value=value, format_spec=spec):
            flow.value(spec, scope)
            written(flow, node, flow.value(value, scope))
            return NONE
        case ast.Starred(value=value):
            return _starred(flow, value, scope)
        case ast.YieldFrom(value=value):
            flow.returned(holding(_starred(flow, value, scope)), scope)
            return NONE
        case ast.Yield(value=value):
            flow.returned(holding(flow.value(value, scope)), scope)
            return NONE
        case _:
            _all(flow, list(ast.iter_child_nodes(node)), scope)
            return NONE


def _all(flow: "Flow", nodes: Sequence[ast.AST | None], scope: "Scope") -> list[Marks]:
    return [flow.value(one, scope) if isinstance(one, ast.expr) else NONE for one in nodes]


def _element(flow: "Flow", node: ast.expr, scope: "Scope") -> Marks:
    if isinstance(node, ast.Starred):
        return holding(_starred(flow, node.value, scope))
    return holding(flow.value(node, scope))


def _starred(flow: "Flow", node: ast.expr, scope: "Scope") -> Marks:
    marks = flow.value(node, scope)
    if SET in marks:
        flow.report(node, ORDER)
    return inside(marks)


def _name(flow: "Flow", name: str, scope: "Scope") -> Marks:
    if name in scope.names:
        is_class = name in flow.classes
        return scope.names[name] | ({f"{OF}{name}"} if is_class else NONE)
    return frozenset({ON_SELF, OF + scope.kind}) if name in OWN else NONE


def _attribute(flow: "Flow", base: ast.expr, attr: str, scope: "Scope") -> Marks:
    if dotted(flow, base, scope):
        return NONE
    of = flow.value(base, scope)
    return flow.attr(of, attr) | kept(of)


def root_of(node: ast.expr) -> ast.expr:
    """What an attribute, or a part, is of in the end."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def _advanced(flow: "Flow", node: ast.expr, marks: Marks, scope: "Scope") -> Marks:
    """An iterator that was there before and is asked for more."""
    if ITERATOR in marks and scope.function:
        for mark in kept(marks):
            flow.report(node, mark.removeprefix(KEPT))
    return marks


def _subscript(flow: "Flow", base: ast.expr, at: ast.expr, scope: "Scope") -> Marks:
    marks = flow.value(base, scope)
    flow.value(at, scope)
    if isinstance(at, ast.Slice):
        return alone(marks) - {ADDRESS}
    return inside(marks)


def _combined(flow: "Flow", node: ast.BinOp, scope: "Scope") -> Marks:
    left, right = flow.value(node.left, scope), flow.value(node.right, scope)
    if isinstance(node.op, ast.Mod) and is_text(node.left):
        written(flow, node, right)
        return NONE
    if {SET, VIEW} & (left | right) and isinstance(node.op, COMBINES):
        return frozenset({SET, CHANGEABLE})
    return alone(held(left | right) | (left | right) & {CHANGEABLE, DATE})


def comprehension(
    flow: "Flow",
    node: Comprehension,
    scope: "Scope",
    is_free: bool = False,
) -> Marks:
    """`is_free`: nobody sees in which order it goes; of a generator it is seen who asks it."""
    own = scope.branch()
    own.in_class = False
    is_free = is_free or isinstance(node, ast.SetComp | ast.GeneratorExp)
    in_order = [True]
    for one in node.generators:
        in_order.append(not flow.loop(one.target, one.iter, own, is_free))
        _all(flow, one.ifs, own)
    if isinstance(node, ast.DictComp):
        flow.value(node.key, own)
        return holding(flow.value(node.value, own)) | {CHANGEABLE}
    marks = holding(flow.value(node.elt, own))
    if isinstance(node, ast.SetComp):
        return frozenset({SET, CHANGEABLE})
    kind = ITERATOR if isinstance(node, ast.GeneratorExp) else CHANGEABLE
    return marks | {kind} | (NONE if all(in_order) else {SET})
