"""A core's handlers are found by their names and annotations."""

from types import ModuleType

import pytest

from shared.events.base import Configured, Event
from shared.machine.handlers import handlers


class Began(Event, frozen=True):
    """The first of two events."""


class Ended(Event, frozen=True):
    """The second of two events."""


def on_both(_state: object, _event: Began | Ended) -> None:
    pass


def _on_configured(_state: object, _event: Configured) -> None:
    pass


def on_one_of_many(_state: object, _row: int, _event: Began) -> None:
    pass


def module(*functions) -> ModuleType:
    made = ModuleType(__name__)
    vars(made).update({function.__name__: function for function in functions})
    return made


def test_a_function_handles_the_events_of_its_annotation():
    found = handlers(module(on_both), module(_on_configured, on_one_of_many))
    assert found == {Began: on_both, Ended: on_both, Configured: _on_configured}


def test_an_imported_function_handles_nothing_in_the_importing_module():
    other = module(on_both)
    other.__name__ = "elsewhere"
    assert handlers(other) == {}


def test_two_handlers_of_one_event_are_refused():
    def on_began(_state: object, _event: Began) -> None:
        pass

    with pytest.raises(AssertionError, match="on_began: Began has a handler already"):
        handlers(module(on_both), module(on_began))
