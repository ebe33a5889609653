"""Plants a bug into modules that are already loaded, and removes it afterwards.

A change is a replacement of text in one module, as in tests/simulation. The module's functions
get the changed code in place, so the change reaches every place that imported them.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tests.simulation.planted import Bug, patched


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Plant the bug in its module until the end of the block."""
    module = import_module(bug.module)
    changed = ModuleType(bug.module)
    exec(compile(patched(bug), f"<{bug.name}>", "exec"), changed.__dict__)
    undo: list[tuple[object, str, Any]] = []
    try:
        for name, new in list(vars(changed).items()):
            old = vars(module).get(name)
            if inspect.isclass(new) and inspect.isclass(old) and new.__module__ == bug.module:
                for key, value in list(vars(new).items()):
                    _replace(old, key, value, undo)
            elif inspect.isfunction(new) and new.__module__ == bug.module:
                _replace(module, name, new, undo)
        yield
    finally:
        for owner, name, value in reversed(undo):
            setattr(owner, name, value)


def _replace(owner: object, name: str, new: object, undo: list[tuple[object, str, Any]]) -> None:
    """Give the owner's attribute another function's code or another plain value."""
    old = vars(owner).get(name)
    if isinstance(old, FunctionType) and isinstance(new, FunctionType):
        code: CodeType = old.__code__
        undo.append((old, "__code__", code))
        old.__code__ = new.__code__
    elif isinstance(new, int | str | bool) and not name.startswith("__"):
        undo.append((owner, name, old))
        setattr(owner, name, new)
