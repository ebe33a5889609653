"""Texts from outside, made safe for logs and terminals.

API servers, webhooks, extenders, brokers, plugins and files write texts that people read here. A
line break in such a text forges a line of ours, and an escape sequence commands the terminal.
"""

import re
from collections.abc import Collection
from functools import lru_cache

QUOTED_MAX = 200
CUT = " ..."
_INTEGER = re.compile("0|-?[1-9][0-9]*")
_INT64 = range(-(1 << 63), 1 << 63)


def one_line(text: str) -> str:
    """Return the text as one line of printable characters.

    A line break with the blanks around it becomes a blank, and so does a tab. Any other character
    that does not print (a control character, a bidirectional control, a lone surrogate) becomes its
    escape, such as ``\\x1b``.
    """
    if text.isprintable():
        return text
    first, *rest = text.splitlines()
    parts = [first.rstrip(), *(line.strip() for line in rest)]
    return "".join(map(_shown, " ".join(part for part in parts if part)))


def snake_case(name: str) -> str:
    """Return a name in CamelCase in lower case: `pods_pending` for `PodsPending`."""
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def integer(text: str) -> int | None:
    """Return an integer of 64 bits in its shortest form, None for another text."""
    return number if _INTEGER.fullmatch(text) and (number := int(text)) in _INT64 else None


def counted(number: int, noun: str) -> str:
    """Return a count of things for people: `1 pod`, `1,011 pods`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def quoted(text: str) -> str:
    """Return a text from outside for a message of ours: one line of at most QUOTED_MAX characters.

    An escape counts as one character.
    """
    return one_line(text if len(text) <= QUOTED_MAX else text[: QUOTED_MAX - len(CUT)] + CUT)


def did_you_mean(name: str, known: Collection[str], likeness: float = 0.6) -> str:
    """Return "; did you mean X?" with the closest known name, or nothing if none is close.

    `likeness` is the least one, from 0 to 1 for equal names.
    """
    return _did_you_mean(name[:QUOTED_MAX], tuple(sorted(known)), likeness)


@lru_cache(1024)
def _did_you_mean(name: str, known: tuple[str, ...], likeness: float) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name, known, n=1, cutoff=likeness)
    return f"; did you mean {found[0]}?" if found else ""


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else character.encode("unicode_escape").decode()
