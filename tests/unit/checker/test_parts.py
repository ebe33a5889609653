"""What the checker finds about gangs with minimums for their parts."""

import pytest

from muster.checker.gangs import attempts
from muster.checker.inputs.journals import Journal, Step
from shared.events.permit import GangCommitted
from shared.events.placement import GangHeld
from shared.events.queueing import GangDispatched, Members, Minimum
from shared.machine.record import Record
from shared.model.columns import pack

MEMBERS = (Members(8, pack([1])), Members(7, pack([2])), Members(7, pack([3, 4])))
SENT = GangDispatched(
    *(1, 5, 1, 2, MEMBERS, 1_000), minimums=(Minimum(1, (8,)), Minimum(2, (7, 9)))
)


@pytest.mark.parametrize(
    ("pods", "found"),
    [
        ([1, 2, 3], []),
        ([1, 2], ["gang 5 committed with 1 of 2 members of a part"]),
        ([2, 3, 4], ["gang 5 committed with 0 of 1 members of a part"]),
    ],
)
def test_a_commit_without_enough_members_of_a_part_is_found(pods, found):
    column = pack(pods)
    inputs = (SENT, GangHeld(0, 5, 1, column, column, column, b"", 0))
    read = [("", 0, event) for event in inputs]
    own = [GangCommitted(5, 1, column, column, 1)]
    journal = Journal("permit/0")
    journal.steps.append(Step(0, Record(0, 0, 0, ()), read, [], own))
    assert [text.partition(": ")[2] for _rule, text in attempts.replay(journal).problems] == found
