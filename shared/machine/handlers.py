"""The handlers of a core, found by their names and annotations."""

from collections.abc import Callable
from inspect import signature
from types import FunctionType, ModuleType
from typing import Any, get_args, get_type_hints

from shared.events.base import Event

Handler = Callable[[Any, Any], None]


def handlers(*modules: ModuleType) -> dict[type[Event], Handler]:
    """Return the handlers of these modules by event: functions `on_NAME(state, event)`, private
    ones too, for the types in the annotation of `event`. Raises AssertionError if two handle one.
    """
    found: dict[type[Event], Handler] = {}
    for module in modules:
        for name, function in vars(module).items():
            is_own = isinstance(function, FunctionType) and function.__module__ == module.__name__
            if is_own and name.lstrip("_").startswith("on_"):
                for kind in _kinds(function):
                    assert kind not in found, f"{name}: {kind.__name__} has a handler already"
                    found[kind] = function
    return found


def _kinds(function: FunctionType) -> tuple[type[Event], ...]:
    """Return the events that a function handles; none if it takes other arguments."""
    names = list(signature(function).parameters)
    if len(names) != 2:
        return ()
    kind = get_type_hints(function)[names[1]]
    return tuple(one for one in get_args(kind) or (kind,) if issubclass(one, Event))
