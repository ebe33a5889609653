"""Every event has a handler in the service that records it and in each service it is addressed to.
Kafka, SQLite and the simulation deliver by `Event.to`, so an event without a handler would be lost
silently.
"""

import ast
import inspect
import textwrap
from typing import Any

import pytest

from muster.app.journals import all_journals
from muster.app.mesh import make_core
from shared.events.base import Configured
from shared.model.ids import service_of
from tests.support.examples import all_event_types, example

PLACEMENTS = 2
CORES: dict[str, Any] = {
    service_of(journal): make_core(journal, PLACEMENTS) for journal in all_journals(PLACEMENTS)
}
NOTHING_TO_DO = {
    ("SignatureDefined", "permit"),
    ("SignatureDefined", "preemption"),
    ("SignatureRetired", "permit"),
    ("SignatureRetired", "preemption"),
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
    found = getattr(core, "_evolve", None) or getattr(module, "HANDLERS", None)
    if found is not None:
        return {kind.__name__ for kind in found}
    tree = ast.parse(textwrap.dedent(inspect.getsource(type(core).evolve)))
    return {ast.unparse(case.cls) for case in ast.walk(tree) if isinstance(case, ast.MatchClass)}


HANDLED = {service: handled(core) for service, core in CORES.items()}


@pytest.mark.parametrize(("of", "kind"), all_event_types(), ids=str)
def test_a_service_handles_each_event_addressed_to_it(of, kind):
    told = {service_of(reader) for reader in example(kind).to()} | {of} & set(CORES)
    told = set(CORES) if kind is Configured else told
    ignored = {service for event, service in NOTHING_TO_DO if event == kind.__name__}
    assert {service for service in told if kind.__name__ not in HANDLED[service]} == ignored
