"""Parses expressions by the grammar of CEL (cel-spec, doc/langdef.md). What no selector of devices
needs is refused by name: bytes, unsigned numbers, messages, map literals.
"""

import re
from typing import Any

from msgspec import Struct

from shared.scheduling.claims.cel.errors import SelectorError

EXPRESSION_BYTES_MAX = 10 * 1024
DEPTH_MAX = 100

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f]+|//[^\n]*)
    |(?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+
        |\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<string>[rRbB]{0,2}(?:\"{3}(?s:.*?)\"{3}|'{3}(?s:.*?)'{3}
        |\"(?:[^\"\\\r\n]|\\.)*\"|'(?:[^'\\\r\n]|\\.)*'))
    |(?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
    |(?P<mark>&&|\|\||==|!=|<=|>=|[-<>!+*/%?:.,()\[\]{}])""",
    re.VERBOSE,
)
_RAW = re.compile(r"[rR](?:\"{3}(?s:.*?)\"{3}|'{3}(?s:.*?)'{3}|\"[^\"\r\n]*\"|'[^'\r\n]*')")
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})"
    r"|([0-3][0-7]{2})|(.))",
    re.DOTALL,
)
_ESCAPED = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    **{mark: mark for mark in "\\?\"'`"},
}
_RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let"),
        *("loop", "package", "namespace", "return", "var", "void", "while", "in"),
    )
)
_RELATIONS = frozenset(("==", "!=", "<", "<=", ">", ">=", "in"))
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


class Literal(Struct, frozen=True):
    """A value that the text says."""

    value: Any


class Name(Struct, frozen=True):
    """A variable."""

    name: str


class Select(Struct, frozen=True):
    """A field, or with `optional` the field if it is there."""

    operand: "Node"
    field: str
    optional: bool = False


class Index(Struct, frozen=True):
    """An item of a list or map, or with `optional` the item if it is there."""

    operand: "Node"
    key: "Node"
    optional: bool = False


class Items(Struct, frozen=True):
    """A list."""

    items: tuple["Node", ...]


class Call(Struct, frozen=True):
    """A function, operator or macro; `target` is what a member function belongs to."""

    function: str
    arguments: tuple["Node", ...]
    target: "Node | None" = None


Node = Literal | Name | Select | Index | Items | Call


def parse(expression: str) -> Node:
    """Return the syntax tree of an expression. Raises SelectorError."""
    if len(expression.encode()) > EXPRESSION_BYTES_MAX:
        raise SelectorError(f"is longer than {EXPRESSION_BYTES_MAX} bytes")
    parser = _Parser(_tokens(expression))
    found = parser.expression()
    parser.expect("end", "")
    return found


class _Token(Struct, frozen=True):
    kind: str
    text: str
    column: int


def _tokens(expression: str) -> list[_Token]:
    found, at = [], 0
    while at < len(expression):
        match = _RAW.match(expression, at) or _TOKEN.match(expression, at)
        if match is None:
            raise SelectorError(f"column {at + 1}: {expression[at]!r} is not expected")
        which = match.lastgroup or "string"
        if which != "space":
            found.append(_Token(which, match[0], at + 1))
        at = match.end()
    return [*found, _Token("end", "", at + 1)]


def _balanced(function: str, found: list[Node]) -> Node:
    """Return a chain as a tree that is not deep, as cel-go does: the order does not matter."""
    if len(found) == 1:
        return found[0]
    half = (len(found) + 1) // 2
    return Call(function, (_balanced(function, found[:half]), _balanced(function, found[half:])))


class _Parser:
    """Takes tokens from the left; one method for each level of precedence."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        found = self._tokens[self._at]
        self._at += 1
        return found

    def _took(self, *marks: str) -> str:
        """Take the next token if it is one of these marks; return it, or nothing."""
        token = self._peek()
        if token.text in marks and token.kind in ("mark", "name"):
            self._at += 1
            return token.text
        return ""

    def expect(self, kind: str, text: str) -> _Token:
        """Take the next token, which must be this one. Raises SelectorError."""
        token = self._next()
        if token.kind != kind or (text and token.text != text):
            raise _unexpected(token, text or kind)
        return token

    def expression(self) -> Node:
        """Parse a whole expression: a condition with its branches, or what is below it."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise SelectorError(f"is nested more than {DEPTH_MAX} deep")
        found = self._either()
        if self._took("?"):
            then = self._either()
            self.expect("mark", ":")
            found = Call("_?_:_", (found, then, self.expression()))
        self._depth -= 1
        return found

    def _either(self) -> Node:
        found = [self._both()]
        while self._took("||"):
            found.append(self._both())
        return _balanced("_||_", found)

    def _both(self) -> Node:
        found = [self._relation()]
        while self._took("&&"):
            found.append(self._relation())
        return _balanced("_&&_", found)

    def _relation(self) -> Node:
        found = self._sum()
        while mark := self._took(*_RELATIONS):
            found = Call(f"_{mark}_", (found, self._sum()))
        return found

    def _sum(self) -> Node:
        found = self._product()
        while mark := self._took("+", "-"):
            found = Call(f"_{mark}_", (found, self._product()))
        return found

    def _product(self) -> Node:
        found = self._unary()
        while mark := self._took("*", "/", "%"):
            found = Call(f"_{mark}_", (found, self._unary()))
        return found

    def _unary(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise SelectorError(f"is nested more than {DEPTH_MAX} deep")
        try:
            if self._took("!"):
                return Call("!_", (self._unary(),))
            if self._took("-"):
                if self._peek().kind in ("int", "double"):
                    return self._members(self._number("-"))
                return Call("-_", (self._unary(),))
            return self._members(self._primary())
        finally:
            self._depth -= 1

    def _members(self, found: Node) -> Node:
        while mark := self._took(".", "["):
            optional = bool(self._took("?"))
            if mark == "[":
                key = self.expression()
                self.expect("mark", "]")
                found = Index(found, key, optional)
                continue
            field = self.expect("name", "").text
            if not optional and self._took("("):
                found = Call(field, self._arguments(")"), found)
            else:
                found = Select(found, field, optional)
            if self._peek().text == "{" and self._peek().kind == "mark":
                raise SelectorError("messages are not supported")
        return found

    def _arguments(self, end: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self._took(end):
            found.append(self.expression())
            if not self._took(","):
                self.expect("mark", end)
                break
        return tuple(found)

    def _primary(self) -> Node:
        token = self._peek()
        if token.kind in ("int", "double"):
            return self._number("")
        self._next()
        if token.kind == "string":
            return Literal(_text(token))
        if token.text == "(" and token.kind == "mark":
            found = self.expression()
            self.expect("mark", ")")
            return found
        if token.text == "[" and token.kind == "mark":
            return Items(self._arguments("]"))
        if token.text == "{" and token.kind == "mark":
            raise SelectorError("map literals are not supported")
        if token.kind != "name" or token.text in _RESERVED:
            raise _unexpected(token, "a value")
        if token.text in _CONSTANTS:
            return Literal(_CONSTANTS[token.text])
        if self._took("("):
            return Call(token.text, self._arguments(")"))
        return Name(token.text)

    def _number(self, sign: str) -> Node:
        token = self._next()
        if self._peek().text in ("u", "U") and self._peek().column == token.column + len(
            token.text
        ):
            raise SelectorError("unsigned numbers are not supported")
        if token.kind == "double":
            return Literal(float(sign + token.text))
        digits = token.text
        value = int(sign + digits, 16 if digits.startswith("0x") else 10)
        if not INT64_MIN <= value <= INT64_MAX:
            raise SelectorError(f"column {token.column}: {sign}{digits} is out of range")
        return Literal(value)


_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None}


def _unexpected(token: _Token, wanted: str) -> SelectorError:
    seen = repr(token.text) if token.text else "its end"
    return SelectorError(f"column {token.column}: {seen} where {wanted} is expected")


def _text(token: _Token) -> str:
    """Return what a string literal says."""
    body = token.text.lstrip("rRbB")
    prefix = token.text[: len(token.text) - len(body)].lower()
    if "b" in prefix:
        raise SelectorError(f"column {token.column}: bytes are not supported")
    ends = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[ends:-ends]
    return body if prefix else _ESCAPE.sub(lambda one: _unescaped(one, token), body)


def _unescaped(found: re.Match[str], token: _Token) -> str:
    octal, single = found[5], found[6]
    if single is not None:
        if single not in _ESCAPED:
            raise SelectorError(f"column {token.column}: \\{single} is not an escape sequence")
        return _ESCAPED[single]
    code = int(octal, 8) if octal else int(next(filter(None, found.groups())), 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise SelectorError(f"column {token.column}: {found[0]} is not a character")
    return chr(code)
