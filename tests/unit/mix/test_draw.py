"""What is drawn from a seed: the same each time, and of the distribution that the mix names."""

import random
from dataclasses import replace
from itertools import pairwise
from statistics import mean

import pytest

from muster.flood.workload import Arrivals, Template
from muster.mix.draw import jobs_of, nodes_of, outages_of
from muster.mix.mix import Durations, Failures, Jobs, Mix, Nodes, Trace
from shared.events.observed import PodsSeen
from shared.model.objects import Node, PodSpec
from shared.model.world import Arrival, World

HOUR_MS = 3_600_000
TEMPLATE = Template("a", PodSpec(), (), False, False, {})
CONSTANT = Durations("constant", HOUR_MS)
LLM = Jobs("llm", TEMPLATE, Arrivals("poisson", 0.1), ((2, 3), (8, 1)), CONSTANT, True)
ETL = Jobs(
    "etl",
    TEMPLATE,
    Arrivals("burst", 0.0, 2, HOUR_MS),
    ((3, 1),),
    Durations("exponential", 600),
    False,
)
RACK = "rack"
MIX = Mix(
    "m",
    1,
    10 * HOUR_MS,
    (Nodes("n", 6, Node(uid="", name=""), (("zone", 4), (RACK, 2))),),
    (LLM, ETL),
    failures=(
        Failures("kubernetes.io/hostname", HOUR_MS, CONSTANT),
        Failures(RACK, HOUR_MS, CONSTANT),
    ),
)


def test_nodes_lie_in_domains_and_the_last_domain_has_the_rest():
    nodes = nodes_of(MIX)
    assert [node.labels["zone"] for node in nodes] == ["n-0"] * 4 + ["n-1"] * 2
    assert [node.labels[RACK] for node in nodes] == ["n-0", "n-0", "n-1", "n-1", "n-2", "n-2"]
    assert len({node.uid for node in nodes}) == 6


def test_jobs_come_in_order_until_the_horizon_with_sizes_by_weight():
    jobs = jobs_of(MIX)
    assert [one.at_ms for one in jobs] == sorted(one.at_ms for one in jobs)
    assert max(one.at_ms for one in jobs) < MIX.horizon_ms
    llm = [one for one in jobs if one.name == LLM.name]
    assert len(llm) == pytest.approx(3_600, rel=0.06)
    assert mean(one.size == 8 for one in llm) == pytest.approx(0.25, abs=0.03)
    assert all(len(one.durations_ms) == one.size for one in llm)
    later_ms = [ms - HOUR_MS for one in llm for ms in one.durations_ms]
    assert (min(later_ms), max(later_ms)) == (0, 950), "as kubelets notice"
    etl = [one for one in jobs if one.name == ETL.name]
    assert [one.at_ms // HOUR_MS for one in etl] == [hour for hour in range(10) for _ in "ab"]
    assert {len(one.durations_ms) for one in etl} == {3}, "each pod of an array has its own"


def test_another_class_and_another_failure_change_nothing_else():
    alone = replace(MIX, jobs=(LLM,), failures=MIX.failures[1:])
    assert jobs_of(alone) == [one for one in jobs_of(MIX) if one.name == LLM.name]
    racks = [one for one in outages_of(MIX, nodes_of(MIX)) if len(one.names) == 2]
    assert outages_of(alone, nodes_of(MIX)) == racks
    assert jobs_of(MIX) == jobs_of(MIX)
    assert jobs_of(replace(MIX, seed=2)) != jobs_of(MIX)


def test_a_domain_fails_as_a_whole_and_only_while_it_is_there():
    outages = outages_of(MIX, nodes_of(MIX))
    assert {one.names for one in outages if len(one.names) > 1} == {
        ("n-0", "n-1"),
        ("n-2", "n-3"),
        ("n-4", "n-5"),
    }
    first_ms = {one.names: one.from_ms for one in reversed(outages)}
    assert len(set(first_ms.values())) == len(first_ms), "each at times of its own"
    for names in {one.names for one in outages}:
        own = [one for one in outages if one.names == names]
        assert all(before.to_ms <= after.from_ms for before, after in pairwise(own))


def test_pods_of_a_trace_without_an_end_run_beyond_the_horizon():
    pods = PodsSeen(spec=PodSpec(), uids="a\nb", names="a\nb", revisions=b"")
    arrivals = (Arrival(at_ms=5, pods=pods), Arrival(at_ms=7, pods=pods, lifetime_ms=9))
    trace = Trace("dlrm", World(name="dlrm", nodes=(), arrivals=arrivals))
    jobs = jobs_of(replace(MIX, jobs=(), traces=(trace,)))
    found = [(one.at_ms, one.size, *one.durations_ms) for one in jobs]
    assert found == [(5, 1, MIX.horizon_ms)] * 2 + [(7, 1, 9)] * 2


@pytest.mark.parametrize(
    "durations",
    [
        CONSTANT,
        Durations("exponential", HOUR_MS),
        Durations("lognormal", HOUR_MS, 1.0),
        Durations("uniform", least_ms=0, most_ms=2 * HOUR_MS),
    ],
)
def test_durations_have_the_mean_that_the_mix_names(durations):
    chance = random.Random(1)
    drawn = [durations.draw(chance) for _ in range(20_000)]
    assert mean(drawn) == pytest.approx(HOUR_MS, rel=0.03)
    assert min(drawn) >= 1
