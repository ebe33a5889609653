"""The gangs of `make bench ARGS=topology`, on a small cluster: what each case must do happens."""

import pytest
import uvloop

from loadtest import gangs
from loadtest.one_process import play

SMALL = gangs.Size(
    nodes=40,
    racks=8,
    blocks=2,
    gangs=8,
    members=4,
    large=16,
    large_gangs=3,
    small=4,
    first_ms=1_500,
    every_ms=400,
    evictions_every_ms=400,
    lasts_ms=50,
)


@pytest.mark.parametrize("topology", [None, gangs.RACK])
def test_gangs_that_come_at_once_are_all_bound(topology, tmp_path):
    run = uvloop.run(play(gangs.racks_case(SMALL, topology), tmp_path))
    assert run.bound == run.pods == 32


def test_each_large_gang_is_committed_and_ends(tmp_path):
    run = uvloop.run(play(gangs.block_case(SMALL, gangs.BLOCK), tmp_path))
    assert run.bound == run.pods == 288 + 3 * 16
    large = {at_ms for at_ms in run.committed_ms if at_ms}
    assert large == {1_500, 1_900, 2_300}


def test_each_large_gang_evicts_small_ones(tmp_path):
    run = uvloop.run(play(gangs.preemption_case(SMALL, gangs.BLOCK), tmp_path))
    assert run.bound == run.pods
    assert run.evicting_ms.keys() == {1_500, 1_900}
    assert all(run.committed_ms[at_ms] >= ms for at_ms, ms in run.evicting_ms.items())


def test_a_block_has_room_for_a_large_gang_where_small_ones_are():
    free = gangs.SIZE.nodes * gangs.SIZE.gpus // 10 // gangs.SIZE.blocks
    assert gangs.SIZE.large <= free < 2 * gangs.SIZE.large
    assert gangs.SIZE.large == 64 * gangs.SIZE.small
