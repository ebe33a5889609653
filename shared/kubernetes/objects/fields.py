"""Typed access to the fields of a decoded YAML or JSON object. Errors name file, object
and field.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from shared.kubernetes.objects import quantities, times
from shared.kubernetes.objects.errors import WorldError, shown
from shared.model.text import did_you_mean

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
T = TypeVar("T")


class Fields:
    """One mapping inside an object, at `path`. Every getter checks the type and raises
    WorldError.
    """

    def __init__(self, what: str, path: str, values: dict[str, Any]) -> None:
        """`what` names the file and the object."""
        self.what, self.path, self.values = what, path, values

    @classmethod
    def root(cls, what: str, value: object) -> "Fields":
        """Return the fields of the whole object."""
        if not isinstance(value, dict):
            raise WorldError(what, "", f"must be an object, is {shown(value)}")
        for key in value:
            if not isinstance(key, str):
                raise WorldError(what, shown(key), "field names must be text")
        return cls(what, "", value)

    def at(self, key: str) -> str:
        """Return the full path of a field; of the mapping itself if `key` is empty."""
        if not key:
            return self.path
        return f"{self.path}.{key}" if self.path else key

    def error(self, key: str, rule: str) -> WorldError:
        """Return the error for one field."""
        return WorldError(self.what, self.at(key), rule)

    def only(self, known: Iterable[str]) -> None:
        """Raise WorldError for unknown fields."""
        allowed = frozenset(known)
        for key in self.values:
            if key not in allowed:
                more = did_you_mean(str(key), allowed)
                raise self.error(str(key), f"is an unknown field{more}")

    def has(self, key: str) -> bool:
        """Return whether the field is present and not null."""
        return self.values.get(key) is not None

    def _typed(self, key: str, kind: type | tuple[type, ...], name: str, default: Any) -> Any:
        value = self.values.get(key)
        if value is None:
            return default
        is_bool = isinstance(value, bool) and kind is not bool
        if is_bool or not isinstance(value, kind):
            raise self.error(key, f"must be {name}, is {shown(value)}")
        return value

    def text(self, key: str, default: str = "") -> str:
        """Return a string."""
        found: str = self._typed(key, str, "text", default)
        if "\n" in found:
            raise self.error(key, "must be one line")
        return found

    def lines(self, key: str) -> str:
        """Return a string that may have several lines."""
        found: str = self._typed(key, str, "text", "")
        return found

    def required_text(self, key: str) -> str:
        """Return a required string that is not empty."""
        found = self.text(key)
        if not found:
            raise self.error(key, "is required")
        return found

    def data(self, key: str) -> bytes:
        """Return bytes given in base64; line breaks are ignored, as in Go."""
        text = re.sub("[\r\n]", "", self._typed(key, str, "text", ""))
        try:
            return base64.b64decode(text, validate=True)
        except ValueError as error:
            raise self.error(key, "is not base64") from error

    def flag(self, key: str, default: bool = False) -> bool:
        """Return a boolean."""
        found: bool = self._typed(key, bool, "true or false", default)
        return found

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        """Return an integer within low..high."""
        found: int = self._typed(key, int, "a whole number", default)
        if self.has(key) and not low <= found <= high:
            raise self.error(key, f"{shown(found)} is not within {low}..{high}")
        return found

    def number(self, key: str) -> float:
        """Return a number; 0 where absent."""
        return float(self._typed(key, (int, float), "a number", 0))

    def one_of(self, key: str, known: tuple[str, ...], default: str) -> str:
        """Return one of the known words."""
        found = self.text(key, default)
        if found not in known:
            raise self.error(
                key, f"{shown(found)} is not one of {', '.join(w for w in known if w)}"
            )
        return found

    def child(self, key: str) -> "Fields":
        """Return a nested object; an absent one is empty."""
        value = self._typed(key, dict, "an object", {})
        for name in value:
            if not isinstance(name, str):
                raise self.error(key, f"field names must be text, {shown(name)} is not")
        return Fields(self.what, self.at(key), value)

    def children(self, key: str) -> Iterator["Fields"]:
        """Yield the objects of a list."""
        for number, value in enumerate(self._typed(key, list, "a list", [])):
            path = f"{key}[{number}]"
            if not isinstance(value, dict):
                raise self.error(path, f"must be an object, is {shown(value)}")
            yield Fields(self.what, self.at(path), value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        values = self._typed(key, list, "a list", [])
        for number, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(f"{key}[{number}]", f"must be text, is {shown(value)}")
        return tuple(values)

    def mapping(self, key: str) -> dict[str, str]:
        """Return names and strings (labels, selectors)."""
        inner = self.child(key)
        return {name: inner.text(name) for name in inner.values}

    def notes(self, key: str) -> dict[str, str]:
        """Return names and strings that may have several lines (annotations)."""
        inner = self.child(key)
        return {name: inner.lines(name) for name in inner.values}

    def time_ms(self, key: str) -> int:
        """Return a time in milliseconds since the epoch; 0 where absent."""
        text = self._typed(key, str, "text", None)
        if text is None:
            return 0
        try:
            if _TIME.fullmatch(text):
                return times.time_ms(text)
        except ValueError:
            pass
        raise self.error(key, f"{shown(text)} is not a time such as 2026-01-02T03:04:05Z")

    def amounts(self, key: str) -> dict[str, int]:
        """Return amounts by resource: cpu in milli, all else in base units."""
        return {name: quantities.rounded(amount) for name, amount in self.exact(key).items()}

    def exact(self, key: str) -> dict[str, quantities.Exact]:
        """Return the same amounts unrounded, for sums."""
        inner = self.child(key)
        return {
            name: inner.quantity(
                name, quantities.milli if name == "cpu" else quantities.exact_units
            )
            for name in inner.values
        }

    def quantity(self, key: str, read: Callable[[object], T]) -> T:
        """Return one quantity as `read` gives it."""
        try:
            return read(self.values[key])
        except ValueError as error:
            raise self.error(key, str(error)) from error
