"""Texts from outside become one printable line."""

import pytest

from shared.model.text import QUOTED_MAX, one_line, quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("two  blanks stay", "two  blanks stay"),
        ("Müller, 日本", "Müller, 日本"),
        ("  blanks stay\there,\x1b too", "  blanks stay here,\\x1b too"),
        ("\n\none \n\n two\n", "one two"),
        ("one\ntwo\r\n three", "one two three"),
        ("no\u2028line\u2029of\x85its\x0bown", "no line of its own"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("C1 \x9b31m, NUL \x00, DEL \x7f, BEL \a", "C1 \\x9b31m, NUL \\x00, DEL \\x7f, BEL \\x07"),
        ("user\u202etxt.exe", "user\\u202etxt.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("a name of bytes: \udcff", "a name of bytes: \\udcff"),
    ],
)
def test_a_text_becomes_one_printable_line(text, shown):
    assert one_line(text) == shown
    assert one_line(text).isprintable()


def test_every_character_prints_afterwards():
    every = "".join(map(chr, range(0x110000)))
    assert one_line(every).isprintable()


def test_a_quoted_text_is_cut():
    assert quoted("x" * QUOTED_MAX) == "x" * QUOTED_MAX
    assert quoted("x" * (QUOTED_MAX + 1)) == "x" * (QUOTED_MAX - 4) + " ..."
    assert quoted("\n" + "x" * 10_000_000).endswith("x ...")
