"""States as plain values and back, by the types of their fields.

`save` returns what the canonical encoding takes, and `load` fills a new state from it. The code for
each type is made once, from its annotations:

- Frozen structs, numbers and texts stay as they are: the encoding knows them.
- Options become those that are set: structs that forbid unknown fields.
- Other structs and dataclasses become the list of their fields; later fields are added at the end.
- A dict becomes its pairs, and a dict without values its keys. Both are sorted, so that equal
  states give equal bytes, unless the order is part of the state (`Ordered`). Sets are sorted too.
  The key of a record comes before its fields.
- `Shared` dicts have few distinct values for many numbers: each value is saved once.
- An `Amount` beyond 64 bits becomes decimal text. The sum stays exact, so it is the same with or
  without a snapshot in between; a saturating sum would depend on the order of changes.
- An array becomes its bytes without the zeros at its end. Ids gathered as `int | I64` become one
  column.
- A class with the methods `dump` and `load` decides for itself: tables drop dead rows.
- `Derived` fields are left out. The core computes them from the others after `load`.

Fields with empty values are left out, so that a new field changes no older snapshot.
"""

import dataclasses
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import cache, partial, reduce
from operator import attrgetter, or_
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
import numpy as np

from shared.model.columns import I64, gathered, pack, unpack

T = TypeVar("T")
S = TypeVar("S")
Change = Callable[[Any], Any]

_DERIVED, _ORDERED, _SHARED, _AMOUNT = "derived", "ordered", "shared", "amount"
Derived = Annotated[T, _DERIVED]
Ordered = Annotated[T, _ORDERED]
Shared = Annotated[T, _SHARED]
Amount = Annotated[int, _AMOUNT]
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
_SCALARS = (int, str, bool, bytes, float, NoneType)
_UNIONS = (Union, UnionType)


def save(state: Any, **instead: Any) -> dict[str, Any]:
    """Return the fields of a state by name, as values for the canonical encoding. Nothing in it
    changes with the state. `instead`: values to save in place of the state's own.
    """
    found: dict[str, Any] = {}
    kind: Any = type(state)
    for name, codec, is_needed in _state_fields(kind):
        value = instead[name] if name in instead else getattr(state, name)
        if codec.save is not None:
            value = codec.save(value)
        if value or is_needed:
            found[name] = value
    return found


def load(state: S, body: Any) -> S:
    """Fill a new state, all but its derived fields, with what `save` returned; return it. Raises
    ValidationError, ValueError or TypeError for the snapshot of another version.
    """
    left = msgspec.convert(body, dict[str, Any])
    kind: Any = type(state)
    for name, codec, _is_needed in _state_fields(kind):
        if name in left:
            value = left.pop(name)
            setattr(state, name, value if codec.load is None else codec.load(value))
    if left:
        raise ValueError(f"{kind.__name__} has no {sorted(left)}")
    return state


class _Codec(NamedTuple):
    """How values of a type are saved and loaded; None: as they are."""

    save: Change | None = None
    load: Change | None = None

    def saves(self) -> Change:
        return self.save or _same

    def loads(self) -> Change:
        return self.load or _same


def _same(value: Any) -> Any:
    return value


@cache
def _state_fields(kind: type) -> list[tuple[str, _Codec, bool]]:
    """Return the saved fields of a state, each with whether its default is not empty."""
    found = []
    codecs = dict(_saved_fields(kind))
    for one in dataclasses.fields(kind):
        if one.name in codecs:
            codec = codecs[one.name]
            made = one.default_factory
            default = made() if callable(made) else one.default
            found.append((one.name, codec, bool(codec.saves()(default))))
    return found


def _saved_fields(kind: type) -> list[tuple[str, _Codec]]:
    """Return the fields that are not derived, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    if dataclasses.is_dataclass(kind):
        names = [one.name for one in dataclasses.fields(kind)]
    else:
        names = list(kind.__struct_fields__)  # type: ignore[attr-defined]
    return [(name, _codec(hints[name])) for name in names if not _is_marked(hints[name], _DERIVED)]


def _is_marked(kind: Any, mark: str) -> bool:
    return get_origin(kind) is Annotated and mark in kind.__metadata__


@cache
def _codec(kind: Any) -> _Codec:
    """Return how a type is saved. Raises TypeError if nothing here says how."""
    if isinstance(kind, NewType):
        return _codec(kind.__supertype__)
    if _is_marked(kind, _SHARED):
        return _shared(get_args(kind)[0])
    if _is_marked(kind, _ORDERED):
        return _dict(get_args(kind)[0], _pairs)
    if _is_marked(kind, _AMOUNT):
        return _Codec(_amount, int)
    if kind in _SCALARS:
        return _Codec()
    if isinstance(kind, type) and hasattr(kind, "dump") and hasattr(kind, "load"):
        return _Codec(kind.dump, kind.load)
    if _is_plain(kind):
        return _Codec(
            _set_options if _is_options(kind) else None, partial(msgspec.convert, type=kind)
        )
    origin, args = get_origin(kind), get_args(kind)
    if origin is dict:
        return _dict(kind, _sorted_pairs)
    if origin is set or origin is frozenset:
        return _Codec(sorted, origin)
    if origin in (list, deque):
        return _many(origin, args[0])
    if origin is tuple:
        return _tuple(args)
    if origin in _UNIONS and NoneType in args:
        return _optional(_codec(reduce(or_, (one for one in args if one is not NoneType))))
    if origin is np.ndarray:
        return _array(np.dtype(get_args(args[1])[0]))
    if _is_record(kind):
        return _record(kind)
    raise TypeError(f"a snapshot cannot hold {kind}")


def _is_record(kind: Any) -> bool:
    """Return whether the values of a type are saved as lists of their fields."""
    if not (dataclasses.is_dataclass(kind) or _is_struct(kind)) or _is_plain(kind):
        return False
    return not (hasattr(kind, "dump") and hasattr(kind, "load"))


def _is_options(kind: Any) -> bool:
    return _is_struct(kind) and kind.__struct_config__.forbid_unknown_fields


def _set_options(options: Any) -> dict[str, Any]:
    """Return the options that differ from the defaults, so that a new option changes nothing."""
    usual: Any = type(options)()
    pairs = ((name, getattr(options, name)) for name in options.__struct_fields__)
    return {name: value for name, value in pairs if value != getattr(usual, name)}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


@cache
def _is_plain(kind: Any) -> bool:
    """Return whether the encoding knows this type, and its values never change."""
    if isinstance(kind, NewType):
        return _is_plain(kind.__supertype__)
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _is_plain(args[0])
    if origin is Literal or kind is Any:
        return True
    if _is_struct(kind):
        hints = get_type_hints(kind, include_extras=True)
        return kind.__struct_config__.frozen and all(
            _is_plain_field(hints[name]) for name in kind.__struct_fields__
        )
    if origin is tuple or origin in _UNIONS:
        return all(one is Ellipsis or _is_plain(one) for one in args)
    return kind in _SCALARS or (isinstance(kind, type) and issubclass(kind, Enum))


def _is_plain_field(kind: Any) -> bool:
    """Return whether a frozen struct may have it: a dict with names, which nothing changes."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is dict:
        return args[0] is str and _is_plain_field(args[1])
    return _is_plain(kind) or (origin in (list, frozenset) and _is_plain_field(args[0]))


def _pairs(value: dict[Any, Any]) -> list[Any]:
    return list(value.items())


def _sorted_pairs(value: dict[Any, Any]) -> Any:
    return sorted(value.items()) if value else ()  # keys differ, so no values are compared


def _dict(kind: Any, pairs: Change) -> _Codec:
    key, of = get_args(kind)
    if of is None:
        in_order: Change = sorted if pairs is _sorted_pairs else list
        keys = _codec(key).loads()
        return _Codec(in_order, lambda saved: dict.fromkeys(map(keys, saved)))
    values = _codec(of)
    if _codec(key) == _Codec() == values:
        return _Codec(pairs, dict)
    if _is_plain(key) and _is_plain(of):
        whole = list[tuple[key, of]]  # type: ignore[valid-type]
        return _Codec(pairs, lambda saved: dict(msgspec.convert(saved, whole)))
    loaded, save_one, load_one = _codec(key).loads(), values.saves(), values.loads()
    if _is_record(of):
        fields = _Fields(of)
        return _Codec(
            lambda value: [fields.values(one, [key]) for key, one in pairs(value)] if value else (),
            lambda saved: {loaded(key): fields.record(values) for key, *values in saved},
        )
    return _Codec(
        lambda value: [(one, save_one(of)) for one, of in pairs(value)] if value else (),
        lambda saved: {loaded(one): load_one(of) for one, of in saved},
    )


def _shared(kind: Any) -> _Codec:
    """Save each distinct value once, with its numbers, ordered by the first of them."""
    values = _codec(get_args(kind)[1])
    load_one = values.loads()

    def grouped(value: dict[int, Any]) -> list[Any]:
        numbers: dict[Any, list[int]] = {}
        for number, of in sorted(value.items(), key=_first):
            numbers.setdefault(of, []).append(number)
        return [(of, pack(those)) for of, those in numbers.items()]

    def ungrouped(saved: Any) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for of, those in saved:
            found.update(dict.fromkeys(unpack(those).tolist(), load_one(of)))
        return found

    return _Codec(grouped, ungrouped)


def _amount(value: int) -> int | str:
    return value if INT64_MIN <= value <= INT64_MAX else str(value)


def _first(pair: tuple[int, Any]) -> int:
    return pair[0]


def _many(origin: Any, of: Any) -> _Codec:
    if get_origin(of) in _UNIONS and I64 in get_args(of):
        return _Codec(gathered, lambda saved: origin([unpack(saved)] if saved else ()))
    values = _codec(of)
    if values == _Codec():
        return _Codec(list, origin)
    if _is_plain(of):
        whole = list[of]
        return _Codec(list, lambda saved: origin(msgspec.convert(saved, whole)))
    save_one, load_one = values.saves(), values.loads()
    return _Codec(
        lambda value: [save_one(one) for one in value],
        lambda saved: origin(map(load_one, saved)),
    )


def _tuple(args: tuple[Any, ...]) -> _Codec:
    if args[-1] is Ellipsis:
        return _many(tuple, args[0])
    codecs = [_codec(one) for one in args]
    return _Codec(
        lambda value: [one.saves()(of) for one, of in zip(codecs, value, strict=True)],
        lambda saved: tuple(one.loads()(of) for one, of in zip(codecs, saved, strict=True)),
    )


def _optional(codec: _Codec) -> _Codec:
    save_one, load_one = codec.saves(), codec.loads()
    return _Codec(
        lambda value: None if value is None else save_one(value),
        lambda saved: None if saved is None else load_one(saved),
    )


def _array(dtype: "np.dtype[Any]") -> _Codec:
    little = dtype.newbyteorder("<")

    def trimmed(value: "np.ndarray[Any, Any]") -> bytes:
        return np.trim_zeros(value, "b").astype(little, copy=False).tobytes()

    return _Codec(trimmed, lambda saved: np.frombuffer(saved, little).astype(dtype))


def _record(kind: type) -> _Codec:
    """Save a record as the list of its fields. Missing last fields have their defaults."""
    fields = _Fields(kind)
    return _Codec(lambda record: fields.values(record, []), fields.record)


class _Fields:
    """The saved fields of a record. Some states have tens of thousands of records, so one costs a
    list and few calls.
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        positional: Any = kind.__match_args__
        saved = _saved_fields(kind)
        self._names = [name for name, _codec in saved]
        self._get = attrgetter(*self._names, self._names[0])  # one more, as one alone is no tuple
        codecs = [(at, codec) for at, (_name, codec) in enumerate(saved)]
        self._savers = [(at, one.save) for at, one in codecs if one.save is not None]
        self._loaders = [(at, one.load) for at, one in codecs if one.load is not None]
        self._in_order = list(positional[: len(self._names)]) == self._names

    def values(self, record: Any, begin: list[Any]) -> list[Any]:
        """Return the values after those of `begin`."""
        start = len(begin)
        begin += self._get(record)
        begin.pop()
        for at, change in self._savers:
            begin[start + at] = change(begin[start + at])
        return begin

    def record(self, saved: Any) -> Any:
        """Return the record with these values. Raises ValueError if there are too many."""
        values = list(saved)
        if len(values) > len(self._names):
            raise ValueError(f"{self._kind.__name__} has no field {len(values)}")
        for at, change in self._loaders:
            if at < len(values):
                values[at] = change(values[at])
        if self._in_order:
            return self._kind(*values)
        return self._kind(**dict(zip(self._names, values, strict=False)))
