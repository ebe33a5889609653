"""A gang with minimums for its parts commits only if each is met, besides minCount."""

import msgspec
import pytest

from services.permit.core.core import PermitCore
from shared.events.permit import GangReleased, HoldAsked
from shared.events.queueing import GangDispatched, Minimum
from tests.support.steps import Steps
from tests.unit.permit.test_core import (
    asked,
    committed,
    dispatched,
    gone,
    held,
    offered,
    refused,
)

MASTER, WORKERS = (8, (1,)), (7, (2, 3, 4))
"""One member of signature 8, three of signature 7: the first of each come first."""


def tried(need: int = 2) -> GangDispatched:
    """Return a dispatch that needs the master, one worker, and `need` members in all."""
    event: GangDispatched = dispatched(MASTER, (7, (2,)), (7, (3, 4)), need=need)
    return msgspec.structs.replace(event, minimums=(Minimum(1, (8,)), Minimum(1, (7,))))


def test_a_plan_meets_every_minimum():
    mesh = Steps(PermitCore(1))
    mesh.when(tried())
    assert mesh.when(offered(0, 1, 1, 0)) == [asked(0, MASTER, (7, (2,)))]
    assert mesh.when(held(0, [1, 2])) == [committed([1, 2], [101, 102])]


def test_enough_members_without_one_of_a_part_are_released():
    mesh = Steps(PermitCore(1))
    mesh.when(tried())
    (released,) = mesh.when(offered(0, 0, 1, 2))
    assert isinstance(released, GangReleased)
    assert (released.stale, released.placed, released.needed) == (False, 1, 2)


def test_the_shard_with_most_room_is_not_chosen_without_all_parts():
    mesh = Steps(PermitCore(2))
    mesh.when(tried())
    asks = mesh.when(offered(0, 0, 1, 2), offered(1, 1, 0, 0))
    assert asks == [asked(0, (7, (2,)), (7, (3, 4))), asked(1, MASTER)]
    mesh.when(held(0, [2, 3, 4]))
    assert mesh.when(held(1, [1])) == [committed([1, 2, 3, 4], [201, 102, 103, 104], shards=2)]


def test_holds_without_a_part_are_planned_again():
    mesh = Steps(PermitCore(3))
    mesh.when(tried())
    mesh.when(offered(0, 0, 1, 2), offered(1, 1, 0, 0), offered(2, 1, 0, 0))
    mesh.when(held(0, [2, 3, 4]))
    mesh.reload()
    assert mesh.when(refused(1)) == [asked(2, MASTER)]
    (commit,) = mesh.when(held(2, [1]))
    assert commit == committed([1, 2, 3, 4], [301, 102, 103, 104], shards=2)


def test_an_attempt_whose_part_left_is_stale():
    mesh = Steps(PermitCore(1))
    mesh.when(tried())
    mesh.when(offered(0, 1, 1, 2))
    (released,) = mesh.when(gone(1))
    assert isinstance(released, GangReleased)
    assert released.stale


@pytest.mark.parametrize("need", [2, 3])
def test_min_count_counts_beside_the_minimums(need: int):
    mesh = Steps(PermitCore(1))
    mesh.when(tried(need=need))
    events = mesh.when(offered(0, 1, 1, 0))
    assert [isinstance(event, HoldAsked) for event in events] == [need == 2]
