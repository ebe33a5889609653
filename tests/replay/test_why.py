"""`muster why` of bound pods: the scores computed again are those that the shards recorded."""

import pytest

from muster.cli import recorded_run
from muster.explain.why.journals import Journals
from muster.explain.why.picks import pick_of
from muster.simulation.scenario import PLACEMENTS
from services.binding.core.pod_table import FACT
from tests.replay.recorded_run import recorded

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replay")]

PODS = 60


@pytest.fixture(scope="module", params=[3, 5])  # 5 has gangs in places made by preemption
def run(request):
    return recorded(request.param)


async def test_every_pick_of_a_run_with_crashes_is_computed_again(run):
    journals = Journals(recorded_run.Recorded(run.bus(), run.store, PLACEMENTS, "recorded"))
    table = (await journals.binding()).table
    there = [row for row in range(table.used) if table.flags[row] & FACT]
    found = []
    for row in there[:: max(1, len(there) // PODS)]:
        try:
            found.append(await pick_of(journals, int(table.ids[row]), int(table.nodes[row])))
        except LookupError:
            continue  # another scheduler bound it
    assert len(found) > PODS / 2
    assert [pick for pick, _nodes in found if pick.missing] == []
    assert any(pick.batch > 1 for pick, _nodes in found)
    for pick, nodes in found:
        scores = [one.score for one in nodes if not one.refused_by]
        assert len(scores) == pick.feasible
        assert pick.score == max(scores)
