"""One example of every event type, made from its fields' types: for golden records and round trips.

The values are fixed by the field's type alone, so an example changes only when its type does.
"""

import types
import typing
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from shared.events import EVENT_TYPES
from shared.events.base import Event
from shared.model.columns import pack

FIXED: dict[Any, Any] = {
    int: 7,
    str: "a",
    bytes: pack([1, 2]),
    bool: True,
    float: 0.5,
    Any: "any",
}


def all_event_types() -> list[tuple[str, type[Event]]]:
    """Yield (journal's service or "observed", event type), in the order of their modules."""
    return [(name, kind) for name, kinds in EVENT_TYPES.items() for kind in kinds]


def example(kind: Any) -> Any:
    """Return a value of the type with every field set."""
    kind = getattr(kind, "__supertype__", kind)  # of a NewType
    if kind in FIXED:
        return FIXED[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        if arguments[-1] is ... and get_origin(arguments[0]) is types.UnionType:
            return tuple(example(part) for part in get_args(arguments[0]))
        if arguments[-1] is ...:
            return (example(arguments[0]),)
        return tuple(example(part) for part in arguments)
    if origin is dict:
        return {example(arguments[0]): example(arguments[1])}
    if origin is typing.Literal:
        return arguments[0]
    if origin is types.UnionType:
        return example(next(part for part in arguments if part is not type(None)))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind)
        return kind(**{name: example(hints[name]) for name in kind.__struct_fields__})
    raise TypeError(f"no example for {kind}")
