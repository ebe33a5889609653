"""A mix is read whole, or refused with its file, field and rule."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from muster.mix.draw import jobs_of, nodes_of
from muster.mix.mix import Durations, Failures, Inference, Jobs, Nodes
from muster.mix.read import read_mix
from shared.kubernetes.objects.errors import WorldError
from shared.model.columns import split

RACK = "example.com/rack"
TRACE = Path(__file__).resolve().parents[3] / "examples" / "trace"
POISSON = {"process": "poisson", "perHour": 36}
GANGS = {"name": "llm", "arrival": POISSON, "size": 4, "duration": "2h"}
NODES = {"count": 8, "domains": {"zone": 4, RACK: 2}}


def read(tmp_path, **changes):
    file = tmp_path / "m.json"
    whole = {"horizon": "1h", "nodes": [NODES], "training": [GANGS]}
    file.write_text(json.dumps(whole | changes))
    return read_mix(file)


def test_a_mix_has_nodes_jobs_deployments_and_failures(tmp_path):
    lognormal = {"shape": "lognormal", "mean": "10m", "sigma": 1}
    found = read(
        tmp_path,
        training=[GANGS | {"topologyKey": RACK}],
        batch=[GANGS | {"name": "etl", "size": {"10": 3, "100": 1}, "duration": lognormal}],
        inference=[{"name": "chat", "count": 2, "replicas": [1, 5]}],
        failures=[{"of": RACK, "meanTimeBetween": "100h", "repair": "30m"}],
    )
    assert (found.name, found.seed, found.horizon_ms) == ("m", 1, 3_600_000)
    (nodes,) = found.nodes
    assert isinstance(nodes, Nodes)
    assert (nodes.count, nodes.domains) == (8, (("zone", 4), (RACK, 2)))
    assert found.levels == ("zone", RACK)
    llm, etl = found.jobs
    assert isinstance(llm, Jobs)
    assert (llm.is_gang, llm.sizes, llm.topology_key) == (True, ((4, 1),), RACK)
    assert llm.arrivals.per_second == 0.01
    assert llm.durations == Durations("constant", 7_200_000)
    assert (etl.is_gang, etl.sizes) == (False, ((10, 3), (100, 1)))
    assert etl.durations == Durations("lognormal", 600_000, 1.0)
    (chat,) = found.inference
    assert chat == Inference("chat", chat.template, 2, (1, 5))
    assert found.failures == (Failures(RACK, 360_000_000, Durations("constant", 1_800_000)),)


def test_a_seed_of_the_command_line_wins(tmp_path):
    read(tmp_path, seed=3)
    assert read_mix(tmp_path / "m.json").seed == 3
    assert read_mix(tmp_path / "m.json", 9).seed == 9


def test_a_trace_brings_its_nodes_and_each_pod_is_a_job(tmp_path):
    trace = {"name": "openb", "world": f"openb:{TRACE},speed=1"}
    found = read(tmp_path, nodes=[], training=[], traces=[trace], horizon="100h")
    assert found.levels == ("topology.kubernetes.io/zone",)
    (one,) = found.traces
    assert nodes_of(found) == one.world.nodes
    jobs = jobs_of(found)
    assert {(job.name, job.size, job.is_gang) for job in jobs} == {("openb", 1, False)}
    pods = sum(len(split(arrival.pods.uids)) for arrival in one.world.arrivals)
    assert len(jobs) == pods
    ends_ms = {arrival.lifetime_ms for arrival in one.world.arrivals}
    assert {job.durations_ms[0] for job in jobs} == {ms or found.horizon_ms for ms in ends_ms}
    short = replace(found, horizon_ms=max(job.at_ms for job in jobs))
    assert 0 < len(jobs_of(short)) < pods


BATCH = {"name": "etl", "arrival": POISSON, "size": 1, "duration": "1m"}
FAILURES = {"meanTimeBetween": "1h", "repair": "1m"}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"horizon": None}, "horizon: is required"),
        ({"horizon": "soon"}, "horizon: 'soon' is not a duration such as 500ms, 5s or 2m"),
        ({"nodes": []}, "nodes: must have an entry, unless there are traces"),
        ({"nodes": [{"count": 8, "domains": {"zone": 9}}]}, "nodes[0].domains.zone: 9 nodes are"),
        (
            {"nodes": [{"count": 8, "domains": {"rack": 2, "zone": 4}}]},
            "nodes[0].domains.zone: 4 nodes are more than the 2 of rack",
        ),
        ({"nodes": [NODES, NODES]}, "nodes: 'node' is there twice"),
        ({"training": []}, "training: is required, unless there is another class"),
        ({"trainings": []}, "trainings: is an unknown field; did you mean training?"),
        ({"batch": [GANGS]}, "training, batch, inference and traces: 'llm' is there twice"),
        ({"training": [GANGS | {"size": {}}]}, "training[0].size: must not be empty"),
        ({"training": [GANGS | {"size": {"x": 1}}]}, "training[0].size.x: is not a number of pods"),
        ({"training": [GANGS | {"topologyKey": "zome"}]}, "no nodes have the domains 'zome'; did"),
        ({"training": [GANGS | {"template": "x"}]}, "training[0].template: no podTemplate 'x'"),
        ({"training": [GANGS | {"arrival": None}]}, "training[0].arrival: is required"),
        (
            {"training": [GANGS | {"arrival": {"process": "poisson", "perHour": 0}}]},
            "training[0].arrival.perHour: must be more than 0",
        ),
        (
            {"training": [GANGS | {"arrival": {"process": "burst"}}]},
            "training[0].arrival.size: is required: how many come every so often",
        ),
        ({"batch": [BATCH | {"topologyKey": RACK}]}, "batch[0].topologyKey: is an unknown field"),
        (
            {"batch": [BATCH | {"duration": {"shape": "lognormal", "mean": "1h"}}]},
            "batch[0].duration.sigma: must be more than 0 and at most 5",
        ),
        (
            {"batch": [BATCH | {"duration": {"shape": "uniform", "min": "2m", "max": "1m"}}]},
            "batch[0].duration.min: must be at most max",
        ),
        (
            {"batch": [BATCH | {"duration": {"shape": "uniform", "mean": "2m"}}]},
            "batch[0].duration.mean: is an unknown field",
        ),
        ({"inference": [{"name": "a"}]}, "inference[0].replicas: must be a list with the number"),
        (
            {"inference": [{"name": "a", "replicas": [1, -1]}]},
            "inference[0].replicas[1]: -1 is not within 0..100000",
        ),
        (
            {"traces": [{"name": "a", "world": "flood:pods=1"}]},
            "traces[0].world: 'flood:pods=1' is not openb:... or dlrm:...",
        ),
        (
            {"traces": [{"name": name, "world": f"openb:{TRACE},speed=1"} for name in "ab"]},
            "traces: two of them have nodes of the same name",
        ),
        (
            {"traces": [{"name": "a", "world": f"openb:{TRACE}"}]},
            "traces[0].world: has no times: add speed=1, or another speed",
        ),
        (
            {"traces": [{"name": "a", "world": f"openb:{TRACE},sped=1"}]},
            "sped: is an unknown setting; did you mean speed?",
        ),
        ({"failures": [FAILURES | {"of": "row"}]}, "failures[0].of: no nodes have the domains"),
        ({"failures": [{"repair": "1m"}]}, "failures[0].meanTimeBetween: is required"),
    ],
)
def test_what_cannot_be_used_is_refused_by_file_and_field(tmp_path, changes, line):
    with pytest.raises(WorldError) as refused:
        read(tmp_path, **changes)
    assert str(refused.value).startswith(f"{tmp_path / 'm.json'}: ")
    assert line in str(refused.value)
