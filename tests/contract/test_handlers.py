"""Every event has a handler in the service that records it and in each service it is addressed to,
and nowhere else. Kafka, SQLite and the simulation deliver by `Event.to`: without a handler an event
would be lost silently, and without an address its handler would never run.
"""

import ast
import inspect
import textwrap
from importlib.util import find_spec
from typing import Any

import pytest

from muster.app.journals import all_journals
from muster.app.mesh import make_core
from shared.events.base import Configured, Event
from shared.model.ids import service_of
from tests.support.examples import all_event_types, example

PLACEMENTS = 2
CORES: dict[str, Any] = {
    service_of(journal): make_core(journal, PLACEMENTS) for journal in all_journals(PLACEMENTS)
}
NOTHING_TO_DO = {
    ("SignatureDefined", "permit"),
    ("SignatureRetired", "permit"),
    ("ShardDigest", "permit"),
    ("Nominated", "queueing"),
    ("BindFailed", "permit"),
    ("Settled", "queueing"),
    ("EvictRecalled", "preemption"),
}
"""Events that a service reads, or records for people and stories, and keeps nothing of."""


def handled(core: Any) -> set[str]:
    """Names of the events that a core has a handler for: keys of its map, or cases of its match."""
    module = inspect.getmodule(type(core))
    found = getattr(module, "HANDLERS", None)
    if found is not None:
        return {kind.__name__ for kind in found}
    tree = ast.parse(textwrap.dedent(inspect.getsource(type(core).evolve)))
    return {ast.unparse(case.cls) for case in ast.walk(tree) if isinstance(case, ast.MatchClass)}


def addressed(kind: type[Event]) -> set[str]:
    """The services that an event is addressed to."""
    return {service_of(reader) for reader in example(kind).to()}


CONFIGURED = {name for name in CORES if find_spec(f"services.{name}.core.config")}
HANDLED = {service: handled(core) for service, core in CORES.items()}


@pytest.mark.parametrize(("of", "kind"), all_event_types(), ids=str)
def test_a_service_handles_the_events_addressed_to_it_and_no_others(of, kind):
    handling = {service for service in CORES if kind.__name__ in HANDLED[service]}
    if of == "observed":
        assert handling == CONFIGURED if kind is Configured else handling
        return
    ignored = {service for event, service in NOTHING_TO_DO if event == kind.__name__}
    assert handling == (addressed(kind) | {of}) - ignored


@pytest.mark.parametrize("service", CORES)
def test_a_service_reads_the_journals_that_have_events_for_it(service):
    writers = {of for of, kind in all_event_types() if service in addressed(kind)} - {service}
    assert {service_of(journal) for journal in CORES[service].sources} == writers
