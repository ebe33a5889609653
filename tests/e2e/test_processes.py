"""Every service runs as a process over a real broker: killed, stopped, doubled, cut off.

Each test ends with the independent checker over whole journals and the cluster's history. It also
leaves the recovery time of each service for the table at the end of the run. `MUSTER_ROUNDS` is how
often each service is killed.
"""

import asyncio
import json
import logging
import os
import re
import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from loadtest.processes import Child
from muster.app.journals import all_journals
from muster.app.mesh import make_core
from tests.e2e import recovery_times
from tests.e2e.console import ROOT, Ran, muster
from tests.e2e.trial import FETCHED_S, Trial
from tests.support.kafka_brokers import running_broker
from tests.support.kafka_server import KafkaBroker
from tests.support.other_machines import OTHER_MACHINES, features_left
from tests.support.server_process import free_ports

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.xdist_group("kafka-processes")]

RATE = 550
ARRIVALS_PER_S = 500
SPEED = 1_500
ROUNDS = int(os.environ.get("MUSTER_ROUNDS", "2"))
KILL_EVERY_S = 5
IN_FLIGHT_MIN = 100
STOPPED_S = 15
DOUBLED_S = 10
VOIDS_MIN = 20
SETTLE_S = 300
LATENCY = "cluster.latency_ms=600"
ZOMBIE = ("-m", "tests.e2e.zombie_serve")


def openb(repeat: int) -> str:
    """Return the trace's main job with evenly spaced arrivals and pods that end after a while."""
    return f"openb:rate={RATE},repeat={repeat},speed={SPEED}"


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    yield from running_broker()


async def many_in_flight(trial: Trial) -> None:
    await trial.until(
        lambda: trial.journals.in_flight() >= 2 * IN_FLIGHT_MIN, SETTLE_S, "enough pods in flight"
    )


async def settle_and_show(trial: Trial) -> None:
    try:
        await trial.settle(SETTLE_S)
    finally:
        found = trial.recovered()
        recovery_times.write(trial.mesh.folder.name, found)
        print("", *found, trial.status(), sep="\n")


async def replayed_elsewhere(trial: Trial) -> list[dict[str, Any]]:
    """Replay from the start and from every snapshot, on other machines; return the last reports."""
    names = all_journals(trial.placements)
    found: list[dict[str, Any]] = []
    for environ in OTHER_MACHINES:
        assert not features_left(environ)
        done = await asyncio.to_thread(replay, trial, environ)
        assert done.code == 0, done
        found = done.json()["journals"]
        assert [one["journal"] for one in found if one["start"] == 0] == names
        assert all(one["ok"] and one["stop"] > 0 for one in found)
        assert {one["journal"] for one in found if one["start"] > 0} == set(names)
    return found


def replay(trial: Trial, environ: Mapping[str, str]) -> Ran:
    """Run `muster replay` in another environment."""
    run = trial.mesh.folder / "run"
    return muster("replay", run, *from_broker(trial), "--from", "each", cwd=ROOT, **environ)


def from_broker(trial: Trial) -> list[str]:
    """Return the arguments with which a command reads the trial's journals."""
    shards = str(trial.placements)
    return ["--bus", trial.mesh.bus, "--placements", shards, "--output", "json"]


async def test_three_shards_bind_a_flood_end_cleanly_and_replay_from_the_broker(broker, tmp_path):
    world = "flood:pods=3000,rate=600,nodes=60"
    async with Trial(tmp_path / "shards", broker.bootstrap, world, placements=3) as trial:
        await trial.settle(SETTLE_S)
        assert len(trial.journals.bound) == 3_000
        await replayed_elsewhere(trial)
        run = trial.mesh.folder / "run"
        done = await asyncio.to_thread(muster, "story", "pod/flood-7", run, *from_broker(trial))
        assert any("bound default/flood-7 on " in line["text"] for line in json.loads(done.out))


async def test_every_service_is_killed_several_times(broker, tmp_path):
    async with Trial(
        tmp_path / "killed", broker.bootstrap, openb(2 + ROUNDS), settings=[LATENCY]
    ) as trial:
        for number in range(2 * ROUNDS):
            await many_in_flight(trial)
            three = [all_journals(1)[(number + 2 * place) % 6] for place in range(3)]
            trial.kill(*three)
            await asyncio.sleep(KILL_EVERY_S)
            await trial.until(partial(trial.acts_again, *three), SETTLE_S, f"{three} act again")
        await settle_and_show(trial)
        created_ms = [one.time_ms for one in trial.happened if one.kind == "create"]
        span_ms = created_ms[-1] - created_ms[0]
        assert span_ms >= 12_000 * ROUNDS
        assert len(created_ms) >= ARRIVALS_PER_S * span_ms / 1000
        assert Counter(one.journal for one in trial.hurts) == dict.fromkeys(all_journals(1), ROUNDS)
        for one in trial.hurts:
            flying = trial.journals.in_flight_at(one.at_ms)
            assert flying >= IN_FLIGHT_MIN, f"{one}: {flying} in flight"
        for journal in all_journals(1):
            assert len(trial.journals.claims_ms[journal]) > ROUNDS


async def stopped(trial: Trial, journal: str) -> None:
    """Stop the owner, let the standby take over, then resume the owner, which notices."""
    child = trial.mesh.services[journal]
    await many_in_flight(trial)
    trial.hurt(journal, "SIGSTOP")
    child.signal(signal.SIGSTOP)
    await asyncio.sleep(STOPPED_S)
    assert trial.journals.owners[journal] == [f"first-{journal}", f"standby-{journal}"]
    child.signal(signal.SIGCONT)


async def test_a_stopped_owner_is_replaced_and_stands_by(broker, tmp_path):
    async with Trial(tmp_path / "stopped", broker.bootstrap, openb(2), settings=[LATENCY]) as trial:
        pair = ("binding/0", "ingest/0")
        for journal in pair:
            trial.mesh.other(journal, "standby").until_said("serving")
        await asyncio.gather(*(stopped(trial, journal) for journal in pair))
        await settle_and_show(trial)
        for journal in pair:
            assert trial.journals.voids(journal) >= 1, "the old owner wrote nothing when it woke"


def regardless_since_ms(child: Child) -> int:
    """Return when an owner noticed that it had lost its journal and continued, in milliseconds."""
    (found,) = re.findall(r"going on regardless since (\d+) ms", child.said())
    return int(found)


def answered_binds(child: Child, from_ms: int) -> Counter[str]:
    """Return the cluster's answers to a process's binds after a time, counted by answer."""
    found: Counter[str] = Counter()
    for line in child.log.with_suffix(".answers").read_text().splitlines():
        at_ms, counts = json.loads(line)
        if at_ms >= from_ms:
            found.update(counts)
    return found


def voids_skipped(port: int) -> int:
    """Return how many void records of other journals a serving process reports as skipped."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        (found,) = re.findall(r"^muster_voids_total{.*} (\S+)$", answer.read().decode(), re.M)
    return int(float(found))


def readers(pair: Sequence[str]) -> dict[str, list[str]]:
    """Return the journals whose owners read some of these, and which of these they read."""
    sources = {name: make_core(name, 1).sources for name in all_journals(1)}
    return {
        name: [one for one in pair if one in read]
        for name, read in sources.items()
        if not set(read).isdisjoint(pair)
    }


async def test_two_owners_at_once_bind_every_pod_once(broker, tmp_path):
    pair = ("binding/0", "ingest/0")
    regardless = (*ZOMBIE, f"regardless:{DOUBLED_S + 1}")
    owners = {name: "second" if name in pair else "first" for name in readers(pair)}
    ports = dict(zip(owners, free_ports(len(owners)), strict=True))
    async with Trial(
        tmp_path / "doubled",
        broker.bootstrap,
        openb(2),
        settings=[LATENCY],
        commands=dict.fromkeys(pair, regardless),
        metrics={f"{owners[name]}-{name}": port for name, port in ports.items()},
    ) as trial:
        await many_in_flight(trial)
        for journal in pair:
            trial.mesh.other(journal, "second", (*ZOMBIE, "forced"))
            trial.hurt(journal, "doubled")
        firsts = [trial.mesh.services[journal] for journal in pair]
        await trial.until(
            lambda: all("stands by at last" in first.said() for first in firsts),
            SETTLE_S,
            "the first owners have gone on for long enough",
        )
        await trial.until(
            lambda: skipped_by_all(trial, ports, pair), SETTLE_S, "every reader skips void records"
        )
        await settle_and_show(trial)
        went_on(trial, pair)
        first = trial.mesh.services["binding/0"]
        answers = answered_binds(first, regardless_since_ms(first))
        print("binds of the first owner by answer, since it went on regardless:", answers)
        assert answers["DONE"], "it had effects"
        late = answers["STALE"] + answers["ASSIGNED"]
        assert late >= IN_FLIGHT_MIN, "its binds that came second were refused by the cluster"
        fenced = [one for one in trial.happened if one.kind == "touch"]
        assert not fenced, "a bind was given up, and no fence survives such a first owner"
        replayed = await replayed_elsewhere(trial)
        voids = {one["journal"]: one["voids"] for one in replayed if one["start"] == 0}
        assert voids == {name: trial.journals.voids(name) for name in all_journals(1)}


def went_on(trial: Trial, pair: Sequence[str]) -> None:
    """Check that the first owners appended under their old terms for as long as planned."""
    for journal in pair:
        assert trial.journals.owners[journal][:2] == [f"first-{journal}", f"second-{journal}"]
        voids_ms = trial.journals.voids_ms[journal]
        assert len(voids_ms) >= VOIDS_MIN, "the first did not go on"
        assert voids_ms[-1] - voids_ms[0] >= DOUBLED_S * 1_000


def skipped_by_all(trial: Trial, ports: Mapping[str, int], pair: Sequence[str]) -> bool:
    """Return whether each reader reports that it skipped every void record. A later reader folded
    the records before its claim and skipped the rest.
    """
    for name, read in readers(pair).items():
        skipped = voids_skipped(ports[name])
        every = sum(trial.journals.voids(source) for source in read)
        if not (VOIDS_MIN <= skipped <= every if name in pair else skipped == every):
            return False
    return True


async def test_the_broker_is_killed_and_comes_back(broker, tmp_path):
    async with Trial(tmp_path / "broken", broker.bootstrap, openb(2), settings=[LATENCY]) as trial:
        for _ in range(1 + (ROUNDS > 3)):
            await many_in_flight(trial)
            await asyncio.to_thread(broker.kill)
            await asyncio.sleep(FETCHED_S)
            for journal in all_journals(1):
                trial.hurt(journal, "broker")
            await asyncio.to_thread(broker.start)
            await asyncio.sleep(4)
        await settle_and_show(trial)
