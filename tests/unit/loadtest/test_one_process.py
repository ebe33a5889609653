"""A case's figures: two clocks, snapshots on, and void where a pod stays unbound."""

import uvloop

from loadtest.one_process import Case, play
from shared.worlds.flood import Flood, flood_world


def played(tmp_path, **flood):
    case = Case(flood_world(Flood(nodes=4, **flood)), snapshot_ms=1, time_limit_s=0.5)
    return uvloop.run(play(case, tmp_path))


def test_the_clock_from_the_first_world_append_is_the_longer_one(tmp_path):
    run = played(tmp_path, pods=40)
    assert run.bound == 40
    assert 0 <= run.timing.span_s < run.timing.world_span_s
    assert run.pods_per_s(run.timing.world_span_s) > 0
    assert run.snapshots > 0
    assert len(run.timing.latencies_ms) == 40


def test_an_unbound_pod_makes_every_figure_void(tmp_path):
    run = played(tmp_path, pods=3, cpu_milli=20_000, node_cpu_milli=19_000)
    assert (run.bound, run.pods_per_s(run.timing.world_span_s)) == (0, 0.0)
