"""Regular expressions of `matches`: those that RE2 and Python read alike.

RE2 needs linear time and Python does not, so patterns whose repetitions could multiply are refused:
a repeated group may hold neither repetitions nor alternatives, and repetitions are few.
"""

import re

from msgspec import Struct

from shared.scheduling.claims.cel.errors import SelectorError

UNBOUNDED_MAX, REPEATS_MAX, TIMES_MAX = 3, 8, 100

_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_REPEAT = re.compile(r"(?:[*+?]|\{(\d{1,3})(,?)(\d{0,3})\})\??", re.ASCII)
_PLAIN = re.compile(r"[^\\^$.|?*+()\[\]{}]")
_CLASS_ITEM = re.compile(r"\\[dws]|\\[-\\\]\[^.+*?$/|(){}]|[^\\\[\]]")


def pattern(text: str) -> re.Pattern[str]:
    """Return the compiled pattern; it is searched for anywhere. Raises SelectorError."""
    reader = _Reader(text)
    found = reader.alternatives()
    if reader.at < len(text):
        raise reader.refused()
    try:
        return re.compile(found.text, re.ASCII)
    except re.error as error:
        raise SelectorError(f"{text!r} is no regular expression: {error}") from error


class _Piece(Struct, frozen=True):
    """A part of a pattern in Python's form; `is_simple` without repetitions and alternatives."""

    text: str
    is_simple: bool = True


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self.at = text, 0
        self._repeats = self._unbounded = 0

    def refused(self) -> SelectorError:
        """Return the error about the character at hand."""
        rest = self._text[self.at :] or "its end"
        return SelectorError(
            f"regular expression {self._text!r}: {rest!r} is not supported by muster"
        )

    def _next(self) -> str:
        return self._text[self.at : self.at + 1]

    def alternatives(self) -> _Piece:
        """Read up to the end, or to the bracket that closes the group."""
        found = [self._sequence()]
        while self._next() == "|":
            self.at += 1
            found.append(self._sequence())
        is_simple = len(found) == 1 and found[0].is_simple
        return _Piece("|".join(one.text for one in found), is_simple)

    def _sequence(self) -> _Piece:
        found = []
        while self._next() not in ("", "|", ")"):
            found.append(self._repeated(self._one()))
        return _Piece("".join(one.text for one in found), all(one.is_simple for one in found))

    def _repeated(self, one: _Piece) -> _Piece:
        repeat = _REPEAT.match(self._text, self.at)
        if repeat is None:
            return one
        is_anchor = one.text in ("^", r"\Z", r"\b", r"\B")
        is_bound = self._text[self.at] == "?" or (repeat[2] is not None and repeat[3] != "")
        is_exact = repeat[1] is not None and not repeat[2]
        most = max(int(repeat[1] or 0), int(repeat[3] or 0))
        self._repeats += 1
        self._unbounded += not (is_bound or is_exact)
        is_single = self._text[self.at] == "?"
        too_many = self._repeats > REPEATS_MAX or self._unbounded > UNBOUNDED_MAX
        if is_anchor or too_many or most > TIMES_MAX or not (one.is_simple or is_single):
            raise self.refused()
        self.at = repeat.end()
        if _REPEAT.match(self._text, self.at):
            raise self.refused()
        return _Piece(one.text + repeat[0], is_simple=False)

    def _one(self) -> _Piece:
        mark = self._next()
        if mark == "(":
            return self._group()
        if mark == "[":
            return _Piece(self._class())
        if mark == "\\":
            return _Piece(self._escaped())
        if mark == "$":
            self.at += 1
            return _Piece(r"\Z")
        if mark in ("^", "."):
            self.at += 1
            return _Piece(mark)
        if not _PLAIN.match(mark):
            raise self.refused()
        self.at += 1
        return _Piece(re.escape(mark))

    def _group(self) -> _Piece:
        plain = self._text.startswith("(?:", self.at)
        if not plain and self._text.startswith("(?", self.at):
            raise self.refused()
        self.at += 3 if plain else 1
        inner = self.alternatives()
        if self._next() != ")":
            raise self.refused()
        self.at += 1
        return _Piece(f"(?:{inner.text})", inner.is_simple)

    def _escaped(self) -> str:
        mark = self._text[self.at + 1 : self.at + 2]
        self.at += 2
        if mark in _CLASSES:
            return f"[{_CLASSES[mark]}]"
        if mark.lower() in _CLASSES:
            return f"[^{_CLASSES[mark.lower()]}]"
        if mark in ("b", "B"):
            return f"\\{mark}"
        if mark and not mark.isalnum() and mark.isascii() and mark != "_":
            return re.escape(mark)
        self.at -= 2
        raise self.refused()

    def _class(self) -> str:
        start, found = self.at, "["
        self.at += 1
        if self._next() == "^":
            found += "^"
            self.at += 1
        while self._next() != "]":
            item = _CLASS_ITEM.match(self._text, self.at)
            if item is None:
                raise self.refused()
            text = item[0]
            if text[0] == "\\":
                found += _CLASSES.get(text[1]) or re.escape(text[1])
            else:
                found += text if text == "-" else re.escape(text)
            self.at = item.end()
        self.at += 1
        if found in ("[", "[^"):
            self.at = start
            raise self.refused()
        return found + "]"
