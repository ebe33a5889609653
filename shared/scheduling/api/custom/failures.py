"""Failures of users' plugins, counted by method and place. Nothing is decided by them."""

from pathlib import PurePath
from traceback import extract_tb
from types import FunctionType

from msgspec import Struct

from shared.model.text import one_line
from shared.scheduling.api.custom.plugin import PLUGINS, Plugin

TEXT_MAX = 200


class Failure(Struct, frozen=True):
    """A plugin's method that failed `count` times in one way. `error` is the first error's text;
    `line` is 0 if the method returned something unusable.
    """

    plugin: str
    method: str
    file: str
    line: int
    error: str
    count: int

    def __str__(self) -> str:
        """Return the failure as one line."""
        place = f" ({self.file} line {self.line})" if self.line else ""
        times = "once" if self.count == 1 else f"{self.count:,} times"
        return f"plugin {self.plugin} failed in {self.method}{place} {times}: {self.error}"


def place_of(plugin: Plugin, error: Exception) -> tuple[str, int]:
    """Return the file and the line of the last frame in the plugin's own file; if there is none, of
    the last frame.
    """
    files = {
        value.__code__.co_filename
        for value in vars(type(plugin)).values()
        if isinstance(value, FunctionType)
    }
    frames = extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename in files]
    last = (inside or frames)[-1]
    return PurePath(last.filename).name, last.lineno or 0


def count_error(plugin: Plugin, method: str, error: Exception) -> int:
    """Count an exception that the method raised; return its line."""
    file, line = place_of(plugin, error)
    text = f"{type(error).__name__}: {error}"
    _count(plugin, (method, file, line, type(error).__name__), text)
    return line


def count_answer(plugin: Plugin, method: str, what: str) -> None:
    """Count an unusable answer of the method; `what` says what is wrong with it."""
    _count(plugin, (method, "", 0, ""), what)


def _count(plugin: Plugin, key: tuple[str, str, int, str], text: str) -> None:
    first, count = plugin.failures.get(key, (one_line(text)[:TEXT_MAX], 0))
    plugin.failures = {**plugin.failures, key: (first, count + 1)}


def failures() -> list[Failure]:
    """Return the failures of all plugins of this process, by plugin, method and place."""
    counts: dict[tuple[str, str, str, int, str], tuple[str, int]] = {}
    for name, registered in PLUGINS.items():
        for plugin in registered.made.values():
            for key, (text, count) in plugin.failures.items():
                first, before = counts.get((name, *key), (text, 0))
                counts[(name, *key)] = first, before + count
    return [
        Failure(name, method, file, line, text, count)
        for (name, method, file, line, _kind), (text, count) in sorted(counts.items())
    ]
