"""YAML with deep nesting, or with aliases that expand to very much, is refused before it becomes a
value.
"""

import itertools

import pytest

from shared.adapters.bounded_yaml import DEPTH_MAX, BeyondBounds, YamlError, check, load_all
from shared.kubernetes.objects.errors import shown
from shared.model.text import QUOTED_MAX

LEVELS, WIDTH = 9, 9


def bomb(head: str, of: str, levels: int = LEVELS) -> str:
    """Anchors of which each holds the one before several times."""
    names = [f"a{level}" for level in range(levels)]
    lines = [f"{names[0]}: &{names[0]} {head}"]
    for before, name in itertools.pairwise(names):
        lines.append(f"{name}: &{name} " + of % ",".join([f"*{before}"] * WIDTH))
    return "\n".join(lines)


BEYOND = {
    "brackets": ("a: " + "[" * 100_000, "line 1: nests deeper than 100 levels"),
    "braces": ("{a: " * 40_000, "line 1: nests deeper than 100 levels"),
    "dashes": ("- " * 50_000, "line 1: nests deeper than 100 levels"),
    "lines": ("\n".join(" " * at + "a:" for at in range(300)), "line 100: nests deeper"),
    "chain": (
        "a: &a0 [x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 200)),
        "by its aliases",
    ),
    "itself": ("x: 1\na: &a\n  b: *a\n", "line 2: holds an alias of itself"),
    "lists": (bomb("[x]", "[%s]"), "line 8: its aliases stand for more than 4,000,000"),
    "maps": (bomb("{k: v}", "{k: [%s]}"), "its aliases stand for more than 4,000,000"),
    "merges": (bomb("{k: v}", "{<<: [%s]}"), "its aliases stand for more than 4,000,000"),
    "texts": (bomb("x" * 1_000_000, "[%s]", levels=3), "its aliases stand for more than"),
}


@pytest.mark.parametrize("name", BEYOND)
@pytest.mark.parametrize("read", [load_all, check])
def test_text_beyond_the_bounds_is_refused_with_its_line(name, read):
    text, line = BEYOND[name]
    with pytest.raises(BeyondBounds, match=line):
        read(text)


def test_the_deepest_and_the_largest_within_the_bounds_are_read():
    assert load_all("[" * DEPTH_MAX + "]" * DEPTH_MAX) != []
    text = "\n".join(["a: &a " + "x" * 1_000_000, *(f"b{n}: *a" for n in range(3))])
    assert len(load_all(text)[0]["b2"]) == 1_000_000
    check(text)


def test_anchors_and_merges_are_read_in_each_document():
    text = "a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\n---\nf: &x [g, '*h']\ni: *x\n"
    assert load_all(text) == [
        {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}},
        {"f": ["g", "*h"], "i": ["g", "*h"]},
    ]


@pytest.mark.parametrize("text", ["a: [", "a: 1\na: 2", "2001-99-99", "!x y", "a: \0"])
def test_malformed_yaml_is_not_reported_as_beyond_bounds(text):
    with pytest.raises(YamlError) as raised:
        load_all(text)
    assert not isinstance(raised.value, BeyondBounds)


LARGE = [
    "x" * 10_000_000,
    ["x" * 10_000_000],
    1 << 100_000,
    [[[[[[[[[1]]]]]]]]],
    {"a": {}},
    [1] * 9_999,
]


def test_values_of_any_size_are_shown_in_a_few_characters():
    for value in LARGE:
        assert len(shown(value)) <= QUOTED_MAX + len("'...'")


def test_a_short_value_is_shown_as_it_is():
    for value in ("it's", ["a", 1], {"b": 1, "c": [None, True]}, 1.5):
        assert shown(value) == repr(value)
