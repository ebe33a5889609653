"""Arguments of custom plugins: their types, refusals and records."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec import Struct

from shared.ports.bind_plugin import BindPlugin
from shared.scheduling.api.custom.args import ArgsWrong, json_of, parsed
from shared.scheduling.api.custom.plugin import Plugin, Registered


@dataclass
class Inner:
    name: str = ""


@dataclass
class Limits:
    most: int = 3
    inner: Inner | None = None
    others: list[Inner] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.most < 0:
            raise ValueError("most must not be negative")


class Words(Struct, frozen=True, rename="camel"):
    first_word: str = "a"


class Plain(Plugin):
    pass


class Typed(Plugin):
    args: Limits


class Worded(BindPlugin):
    args: Words

    def __init__(self) -> None:
        self.word = self.args.first_word * 2


@pytest.mark.parametrize(
    ("kind", "given", "found"),
    [
        (Plain, {}, {}),
        (Plain, {"b": [1, {"c": None}], "kind": "x"}, {"b": [1, {"c": None}], "kind": "x"}),
        (Typed, {}, Limits()),
        (Typed, {"most": 7, "kind": "TypedArgs", "apiVersion": "x/v1"}, Limits(7)),
        (Typed, {"inner": {"name": "a"}}, Limits(inner=Inner("a"))),
        (Worded, {"firstWord": "b"}, Words("b")),
    ],
)
def test_arguments_have_the_type_that_the_class_gives_them(kind, given, found):
    assert parsed(kind, json_of(given)) == found


@pytest.mark.parametrize(
    ("kind", "given", "where", "rule"),
    [
        (Typed, {"most": "7"}, "args.most", "Expected `int`, got `str`"),
        (Typed, {"most": -1}, "args", "most must not be negative"),
        (Typed, {"least": 7}, "args.least", "is an unknown field"),
        (Typed, {"inner": {"x": 1}}, "args.inner.x", "is an unknown field"),
        (Typed, {"others": [{}, {"x": 1}]}, "args.others[1].x", "is an unknown field"),
        (Worded, {"first_word": "b"}, "args.first_word", "is an unknown field"),
    ],
)
def test_arguments_of_another_type_are_refused_with_field_and_rule(kind, given, where, rule):
    with pytest.raises(ArgsWrong) as caught:
        parsed(kind, json_of(given))
    assert (caught.value.field, str(caught.value)) == (where, rule)


def test_equal_arguments_are_recorded_alike_and_make_one_plugin():
    texts = [json_of({"firstWord": "b", "kind": "k"}), json_of({"kind": "k", "firstWord": "b"})]
    found = Registered(Worded, "0")
    one, other = (found.made_with(text) for text in texts)
    assert one is other
    assert isinstance(one, Worded)
    assert one.word == "bb", "arguments are there before its __init__"
    assert found.made_with("") is not one
    made: list[Any] = list(found.made.values())
    assert [each.errors for each in made] == [0, 0], "whatever its __init__ leaves out"
    assert json_of({}) == ""
