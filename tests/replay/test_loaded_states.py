"""A state that is saved and loaded before every record decides what was recorded, and its bytes
stay those of the state that was never loaded.
"""

import pytest

from muster.app.mesh import make_core
from muster.simulation.scenario import PLACEMENTS
from shared.machine.core import step
from shared.machine.fold import Folded, InputFeed, own_records
from shared.machine.record import slice_events
from tests.replay.recorded_run import JOURNALS, recorded

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replay")]
SEEDS = (3, 11)


@pytest.fixture(scope="module", params=SEEDS)
def run(request):
    return recorded(request.param)


def loaded(folded: Folded) -> Folded:
    """Return the fold with its state saved and loaded."""
    body = folded.body()
    twin: Folded = Folded(folded.core)
    twin.restore(body)
    assert twin.body() == body
    return twin


@pytest.mark.parametrize("journal", JOURNALS)
async def test_a_loaded_state_continues_identically_from_every_record(run, journal):
    core, bus = make_core(journal, PLACEMENTS), run.bus()
    straight = Folded(core)
    feed, decided = InputFeed(bus, straight.state), 0
    async for position, record in own_records(straight, bus):
        inputs = await feed.inputs(record)
        twin = loaded(straight)
        twin.own_reader = straight.own_reader
        straight.apply(record, inputs)
        if record.claim is None:
            twin.apply_causes(record, inputs)
            events = step(core, twin.state)
            assert slice_events(events) == record.slices, position
            decided += len(events)
        else:
            twin.apply(record, inputs)
        assert twin.body() == straight.body(), position
    assert decided
