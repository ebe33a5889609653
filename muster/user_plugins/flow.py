"""Where values go in the code of a plugin that decides: who takes the order of a set, who changes
what outlasts the question, who writes an address into a text.

The file is read as it would run, each function with what the file's own calls give it, again and
again until nothing more is learnt. What is put into containers of containers, or goes through
functions of others, is lost sight of. calls.py knows what functions make of values.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from muster.user_plugins import values
from muster.user_plugins.calls import ORDER
from muster.user_plugins.marks import (
    ADDRESS,
    CHANGEABLE,
    ITERATOR,
    KEPT,
    NONE,
    OF,
    SET,
    Marks,
    alone,
    annotated,
    holding,
    inside,
    kept,
    kinds,
)
from muster.user_plugins.modules import bound, imported
from muster.user_plugins.values import COMBINES, ON_SELF, OWN, root_of
from shared.scheduling.api.custom import METHODS

ROUNDS = 12
"""Marks only ever come to more; files whose calls go deeper than this do not exist."""
MAKING = ("__init__", "__new__", "__post_init__")
"""Where a plugin, or what it is told by a profile, is made: there is no question yet."""
OF_NODES = {"filter_node": 1, "score_node": 1, "room": 0}
"""Which argument is a node, whose text is what it has."""
LOOP = "a loop over a set (sort it first)"
DEFAULT = "a default that can be changed"
Function = ast.FunctionDef | ast.Lambda


@dataclass
class Scope:
    """What names stand for at a place; `function` is "" outside of functions, `kind` the class."""

    names: dict[str, Marks]
    function: str = ""
    kind: str = ""
    in_class: bool = False

    def branch(self) -> "Scope":
        """For code that may run or not."""
        return Scope(dict(self.names), self.function, self.kind, self.in_class)

    def join(self, *others: "Scope") -> None:
        """After one of them has run."""
        for name in {name for one in others for name in one.names}:
            self.names[name] = NONE.union(*(one.names.get(name, NONE) for one in others))


@dataclass
class Flow:
    """All that is known of a file: of attributes, of parameters of functions, of their results.
    Methods and attributes go by CLASS.NAME.
    """

    tree: ast.Module
    attrs: dict[str, Marks] = field(default_factory=dict)
    params: dict[tuple[str, str], Marks] = field(default_factory=dict)
    returns: dict[str, Marks] = field(default_factory=dict)
    found: set[tuple[int, str]] = field(default_factory=set)
    later: list[tuple[ast.FunctionDef, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        nodes = list(ast.walk(self.tree))
        self.imports = imported(self.tree)
        self.classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
        self.functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
        for kind in self.classes.values():
            for node in kind.body:
                if isinstance(node, ast.FunctionDef):
                    self.functions[f"{kind.name}.{node.name}"] = node

    def offences(self) -> set[tuple[int, str]]:
        """Lines and what is wrong there."""
        for _ in range(ROUNDS):
            before = dict(self.attrs), dict(self.params), dict(self.returns)
            self._file()
            if before == (self.attrs, self.params, self.returns):
                break
        return self.found

    def _file(self) -> None:
        self.found.clear()
        self.later.clear()
        scope = Scope({})
        self.block(self.tree.body, scope)
        names = {
            name: marks | {f"{KEPT}keeping something in {name}"}
            for name, marks in scope.names.items()
        }
        for node, kind in list(self.later):
            self.function(node, Scope(dict(names)), kind)

    def bases(self, kind: str) -> list[str]:
        """The class and those that it extends, those of the file with theirs."""
        found = [kind]
        for one in found:  # which grows meanwhile
            bases = self.classes[one].bases if one in self.classes else ()
            names = (base.id for base in bases if isinstance(base, ast.Name))
            found.extend(name for name in names if name not in found)
        return found

    def attr(self, of: Marks, attr: str) -> Marks:
        """What is known of an attribute of something."""
        names = (one for kind in kinds(of) for one in self.bases(kind))
        return NONE.union(*(self.attrs.get(f"{one}.{attr}", NONE) for one in names))

    def learn(self, kind: str, attr: str, marks: Marks) -> None:
        """It may have that as well."""
        name = f"{kind}.{attr}"
        self.attrs[name] = self.attrs.get(name, NONE) | marks

    def method(self, of: Marks, name: str) -> list[str]:
        """Functions of the file that such a method may be."""
        known = kinds(of)
        for one in (one for kind in known for one in self.bases(kind)):
            if f"{one}.{name}" in self.functions:
                return [f"{one}.{name}"]
        if any(one in self.classes for one in known):
            return []
        return [one for one in self.functions if one.endswith(f".{name}")]

    def report(self, node: ast.AST, what: str) -> None:
        """It must not be."""
        self.found.add((getattr(node, "lineno", 0), what))

    # Statements

    def block(self, body: Sequence[ast.stmt], scope: Scope) -> bool:
        """Whether what follows is not reached."""
        for node in body:
            self.statement(node, scope)
        return bool(body) and isinstance(body[-1], ast.Return | ast.Raise)

    def statement(self, node: ast.stmt, scope: Scope) -> None:
        """What it does to names."""
        match node:
            case ast.FunctionDef():
                self._defined(node, scope)
            case ast.ClassDef():
                self._class(node, scope)
            case ast.Assign(targets=targets, value=value):
                marks = self.value(value, scope)
                for target in targets:
                    self.store(target, marks, scope, value)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                marks = self.value(value, scope) | annotated(annotation)
                if scope.in_class:
                    marks -= {CHANGEABLE}  # each Struct has its own
                self.store(target, marks, scope, value)
            case ast.AugAssign():
                self._augmented(node, scope)
            case ast.Return(value=value):
                marks = self.value(value, scope)
                if SET in marks and ITERATOR in marks:
                    self.report(node, ORDER)
                self.returned(marks, scope)
            case ast.Delete(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Attribute | ast.Subscript):
                        self.changed(target.value, scope, target)
            case _:
                self._compound(node, scope)

    def _compound(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.For(target=target, iter=over):
                for _ in range(2):
                    self.loop(target, over, scope)
                    self._branches(scope, node.body, [])
                self.block(node.orelse, scope)
            case ast.While(test=test):
                for _ in range(2):
                    self.value(test, scope)
                    self._branches(scope, node.body, [])
                self.block(node.orelse, scope)
            case ast.If(test=test):
                self.value(test, scope)
                self._branches(scope, node.body, node.orelse)
            case ast.Try() | ast.TryStar():
                self._branches(scope, [*node.body, *node.orelse], [])
                self._branches(scope, *(one.body for one in node.handlers), [])
                self.block(node.finalbody, scope)
            case ast.With(items=items):
                for item in items:
                    marks = self.value(item.context_expr, scope)
                    if item.optional_vars is not None:
                        self.store(item.optional_vars, marks, scope, None)
                self.block(node.body, scope)
            case ast.Match():
                self._match(node, scope)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child, scope)

    def _branches(self, scope: Scope, *bodies: Sequence[ast.stmt]) -> None:
        """One of these runs, as far as one can tell."""
        ends = []
        for body in bodies:
            branch = scope.branch()
            if not self.block(body, branch):
                ends.append(branch)
        scope.join(*ends)

    def _match(self, node: ast.Match, scope: Scope) -> None:
        marks = self.value(node.subject, scope)
        ends = [scope.branch()]
        for case in node.cases:
            branch = scope.branch()
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if name:
                    branch.names[name] = marks if part is case.pattern else inside(marks)
            self.value(case.guard, branch)
            if not self.block(case.body, branch):
                ends.append(branch)
        scope.join(*ends)

    def _augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        more = self.value(node.value, scope)
        target = node.target
        if not isinstance(target, ast.Name):
            self.changed(target.value, scope, target)
            return
        before = scope.names.get(target.id, NONE)
        if CHANGEABLE in before | more:
            self.changed(target, scope, node)
        if SET in more and SET not in before and not isinstance(node.op, COMBINES):
            self.report(node, ORDER)
        scope.names[target.id] = before | more

    def returned(self, marks: Marks, scope: Scope) -> None:
        """What a function gives."""
        self.returns[scope.function] = self.returns.get(scope.function, NONE) | marks

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        for base in node.bases:
            self.value(base, scope)
        own = scope.branch()
        own.kind, own.in_class = node.name, True
        self.block(node.body, own)
        scope.names[node.name] = NONE

    def _defined(self, node: ast.FunctionDef, scope: Scope) -> None:
        self.defaults(node.args, scope)
        for one in node.decorator_list:
            self.value(one, scope)
        if not scope.in_class:
            scope.names[node.name] = frozenset({ADDRESS})
        elif any(_last(one) in ("property", "cached_property") for one in node.decorator_list):
            self.learn(scope.kind, node.name, self.returns.get(f"{scope.kind}.{node.name}", NONE))
        if scope.function:
            self.function(node, scope.branch(), scope.kind if scope.in_class else "")
        else:
            self.later.append((node, scope.kind if scope.in_class else ""))

    def defaults(self, args: ast.arguments, scope: Scope) -> None:
        """Made once, and there ever after."""
        for default in (*args.defaults, *args.kw_defaults):
            marks = self.value(default, scope)
            is_named = isinstance(default, ast.Name | ast.Attribute)
            if default is not None and marks & {CHANGEABLE, ITERATOR} and not is_named:
                self.report(default, DEFAULT)

    def function(self, node: Function, scope: Scope, kind: str = "") -> Marks:
        """Its body, in a scope of its own; of a lambda, what it gives."""
        name = node.name if isinstance(node, ast.FunctionDef) else "lambda"
        full = f"{kind}.{name}" if kind else name
        args = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        own = dict.fromkeys(bound(node), NONE)
        for arg in args:
            own[arg.arg] = self.params.get((full, arg.arg), NONE) | annotated(arg.annotation)
        for one, default in _named_defaults(node.args):
            own[one] |= self._name_of(default, scope)
        if kind and any(name in methods for methods in METHODS.values()):
            given = [arg.arg for arg in node.args.args if arg.arg not in OWN]
            for at, one in enumerate(given):
                own[one] |= {f"{KEPT}changing {one}, which the plugin is given,"}
                own[one] |= NONE if OF_NODES.get(name) == at else {ADDRESS}
        for arg in args:
            if arg.arg in OWN:
                own[arg.arg] = self._own(arg.arg, full, kind)
        inner = Scope(scope.names | own, full, kind)
        if isinstance(node, ast.Lambda):
            return self.value(node.body, inner)
        self.block(node.body, inner)
        return NONE

    def _own(self, arg: str, function: str, kind: str) -> Marks:
        """Of self: a plugin outlasts the question; another object where it was asked on one that
        does.
        """
        bases = [base for one in self.bases(kind) for base in self._written(one)]
        if arg == "cls" or not kind or "Plugin" in bases:
            return frozenset({ON_SELF, OF + kind})
        return self.params.get((function, arg), NONE) | {OF + kind}

    def _written(self, kind: str) -> list[str]:
        return [_last(base) for base in self.classes[kind].bases] if kind in self.classes else []

    def _name_of(self, default: str, scope: Scope) -> Marks:
        """What is there ever after by a name."""
        return scope.names.get(default, NONE) | {f"{KEPT}keeping something in {default}"}

    # Names that get values

    def store(self, target: ast.expr, marks: Marks, scope: Scope, value: ast.expr | None) -> None:
        """A target of an assignment gets a value with these marks."""
        match target:
            case ast.Name(id=name):
                scope.names[name] = marks
                if scope.in_class:
                    more = {f"{KEPT}keeping something in {scope.kind}"}
                    self.learn(scope.kind, name, marks | (more if CHANGEABLE in marks else NONE))
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack(targets, marks, scope, value)
            case ast.Starred(value=inner):
                self.store(inner, marks | {CHANGEABLE}, scope, None)
            case ast.Attribute(value=base, attr=attr):
                self.changed(base, scope, target)
                for kind in kinds(self.value(base, scope)):
                    self.learn(kind, attr, alone(marks) | marks & {ITERATOR})
            case ast.Subscript(value=base, slice=at):
                self.value(at, scope)
                self.changed(base, scope, target)
                self.put_in(base, marks, scope)

    def _unpack(
        self, targets: list[ast.expr], marks: Marks, scope: Scope, value: ast.expr | None
    ) -> None:
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(targets):
            for one, part in zip(targets, value.elts, strict=True):
                self.store(one, self.value(part, scope), scope, part)
            return
        if SET in marks:
            self.report(targets[0], ORDER)
        for one in targets:
            self.store(one, inside(marks), scope, None)

    def put_in(self, base: ast.expr, marks: Marks, scope: Scope) -> None:
        """A container gets such a value."""
        if isinstance(base, ast.Name):
            scope.names[base.id] = scope.names.get(base.id, NONE) | holding(marks)
        elif isinstance(base, ast.Attribute):
            for kind in kinds(self.value(base.value, scope)):
                self.learn(kind, base.attr, holding(marks))

    def changed(self, base: ast.expr, scope: Scope, node: ast.AST) -> None:
        """Something that must not outlast the question is changed in place."""
        for mark in kept(self.value(base, scope) | self.value(root_of(base), scope)):
            if mark != ON_SELF or scope.function.rpartition(".")[2] not in MAKING:
                self.report(node, mark.removeprefix(KEPT))

    def loop(self, target: ast.expr, over: ast.expr, scope: Scope, is_free: bool = False) -> bool:
        """A loop's name gets what it runs over. Whether that is in a set's order."""
        marks = self.value(over, scope)
        if SET in marks and not is_free:
            self.report(over, LOOP)
        pair = target.elts if isinstance(target, ast.Tuple) else []
        parts = list(self._parts(over, scope)) if pair else []
        if len(parts) == len(pair) > 0:
            for one, part in zip(pair, parts, strict=True):
                self.store(one, part, scope, None)
        else:
            self.store(target, inside(marks), scope, None)
        return SET in marks

    def _parts(self, over: ast.expr, scope: Scope) -> Iterator[Marks]:
        """Of what comes in pairs: items(), enumerate(), zip()."""
        match over:
            case ast.Call(func=ast.Name(id="sorted" | "list" | "tuple" | "reversed"), args=[one]):
                yield from self._parts(one, scope)
            case ast.Call(func=ast.Name(id="enumerate"), args=[one, *_]):
                yield from (NONE, inside(self.value(one, scope)))
            case ast.Call(func=ast.Name(id="zip"), args=args):
                yield from (inside(self.value(one, scope)) for one in args)
            case ast.Call(func=ast.Attribute(value=base, attr="items"), args=[]):
                yield from (NONE, inside(self.value(base, scope)))

    def value(self, node: ast.expr | None, scope: Scope) -> Marks:
        """What is known of it; what is wrong in it is told."""
        return values.value(self, node, scope)

    def comprehension(self, node: values.Comprehension, scope: Scope) -> Marks:
        """The same, where nobody sees in which order it goes."""
        return values.comprehension(self, node, scope, is_free=True)


def _named_defaults(args: ast.arguments) -> Iterator[tuple[str, str]]:
    """Parameters and the names that are their defaults."""
    plain = [*args.posonlyargs, *args.args]
    pairs = [*zip(reversed(plain), reversed(args.defaults), strict=False)]
    for arg, default in (*pairs, *zip(args.kwonlyargs, args.kw_defaults, strict=True)):
        if isinstance(default, ast.Name):
            yield arg.arg, default.id


def _last(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
