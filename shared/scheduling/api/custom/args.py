"""Arguments of users' plugins: their `pluginConfig`, as the type that the class gives to `args`, a
dataclass or a msgspec Struct; a plain dict without one.
"""

from collections.abc import Iterator
from typing import Any, get_type_hints

import msgspec
from msgspec import inspect

OF_ALL = ("apiVersion", "kind")
"""Fields that the arguments of any plugin may have; a type need not name them."""


class ArgsWrong(Exception):
    """Arguments that a plugin does not accept; `field` is the place, from `args` on."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(rule)
        self.field = field


def type_of(kind: type) -> Any:
    """Return the type of the class's `args`. Raises the errors of its annotations, and TypeError
    for an unusable type.
    """
    found = get_type_hints(kind).get("args", Any)
    if found is Any:
        return dict[str, Any]
    if not isinstance(inspect.type_info(found), inspect.StructType | inspect.DataclassType):
        raise TypeError(f"must be a dataclass or a Struct, is {found}")
    return found


def json_of(values: dict[str, Any]) -> str:
    """Return arguments as recorded: equal values give equal text."""
    return msgspec.json.encode(values, order="sorted").decode() if values else ""


def parsed(kind: type, text: str) -> Any:
    """Return recorded arguments as the plugin's type. Raises ArgsWrong."""
    values = msgspec.json.decode(text) if text else {}
    wanted = type_of(kind)
    known = inspect.type_info(wanted)
    if isinstance(known, inspect.StructType | inspect.DataclassType):
        names = [one.encode_name for one in known.fields]
        values = {key: one for key, one in values.items() if key in names or key not in OF_ALL}
    for field in _unknown(known, values, "args"):
        raise ArgsWrong(field, "is an unknown field")
    try:
        return msgspec.convert(values, wanted)
    except msgspec.ValidationError as error:
        rule, _, path = str(error).partition(" - at `$")
        raise ArgsWrong(f"args{path.rstrip('`')}", rule) from error


def _unknown(known: inspect.Type, value: Any, path: str) -> Iterator[str]:
    """Yield fields at any depth that no type names, which msgspec ignores."""
    match known, value:
        case (inspect.StructType() | inspect.DataclassType(), dict()):
            types = {one.encode_name: one.type for one in known.fields}
            for key, inner in value.items():
                if key in types:
                    yield from _unknown(types[key], inner, f"{path}.{key}")
                else:
                    yield f"{path}.{key}"
        case (inspect.CollectionType(), list()):
            for number, inner in enumerate(value):
                yield from _unknown(known.item_type, inner, f"{path}[{number}]")
        case (inspect.UnionType(), _):  # of what may be absent: msgspec takes no two objects in one
            for one in known.types:
                yield from _unknown(one, value, path)
