"""Gangs without an object: they exist while pods name them, with the count that pods say."""

from services.ingest.core.core import IngestCore
from shared.events.ingest import GangGone, GangSet, PodsPending
from shared.events.observed import GangsSeen
from shared.model.objects import Gang
from tests.unit.ingest.inputs import gone, ingest, listed, one, pods

KEY = "default/g@kueue"


def members(*names: str, at: int = 1, **fields):
    return pods(*names, at=at, gang=KEY, gang_count=3, **fields)


def test_the_first_member_makes_the_gang_and_the_last_one_ends_it():
    steps = ingest()
    events = steps.when(members("a"))
    assert one(events, GangSet) == GangSet(1, KEY, 3, 300_000, 1)
    assert one(events, PodsPending).gang == 1
    assert one(events, PodsPending).key == ""
    events = steps.when(members("b", at=2), members("c", at=3), gone("a", "b"))
    assert not [event for event in events if isinstance(event, GangSet | GangGone)]
    assert one(steps.when(gone("c")), GangGone) == GangGone(1)
    # Another group may have the name later.
    assert one(steps.when(members("d", at=9)), GangSet) == GangSet(2, KEY, 3, 300_000, 1)


def test_a_pod_that_joins_later_makes_the_gang():
    steps = ingest()
    steps.when(pods("a"))
    assert one(steps.when(members("a", at=2)), GangSet).min_count == 3


def test_a_list_of_groups_does_not_end_it():
    steps = ingest()
    other = GangsSeen((Gang(key="default/w", min_count=2),))
    events = steps.when(members("a"), other)
    assert [event.key for event in events if isinstance(event, GangSet)] == [KEY, "default/w"]
    assert one(steps.when(*listed("gangs")), GangGone) == GangGone(2)


def test_a_saved_state_keeps_it():
    steps = ingest()
    steps.when(members("a"))
    core = IngestCore()
    steps.state = core.load(core.dump(steps.state))
    assert one(steps.when(gone("a")), GangGone) == GangGone(1)
