"""Texts from outside, made safe for logs and terminals.

API servers, webhooks, extenders, brokers, plugins and files write texts that people read here. A
line break in such a text forges a line of ours, and an escape sequence commands the terminal.
"""

QUOTED_MAX = 200
CUT = " ..."


def one_line(text: str) -> str:
    """The text as one line of printable characters.

    A line break becomes a blank. Any other character that does not print (a control character, a
    bidirectional control, a lone surrogate) becomes its escape, such as ``\\x1b``.
    """
    if text.isprintable():
        return text
    joined = " ".join(text.split())
    return "".join(one if one.isprintable() else _escape(one) for one in joined)


def quoted(text: str) -> str:
    """A text from outside as part of a message of ours: one line of at most QUOTED_MAX characters.

    An escape counts as one character.
    """
    return one_line(text if len(text) <= QUOTED_MAX else text[: QUOTED_MAX - len(CUT)] + CUT)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
