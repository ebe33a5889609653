"""Every service a process of its own over a real broker: killed, stopped, doubled, cut off.

Each test ends with the independent checker over whole journals and the cluster's history, and
prints how long each service took to act again.
"""

import asyncio
import json
import logging
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from loadtest.processes import Child
from muster.mesh import all_journals
from shared.testing.kafka_server import (
    KafkaBroker,
)
from tests.brokers import running_broker
from tests.e2e.console import ROOT, Ran, muster
from tests.e2e.trial import Trial, now_ms
from tests.machines import OTHER_MACHINES

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.xdist_group("kafka-processes")]

RATE = 550
ARRIVALS_PER_S = 500
SPEED = 1_500
ROUNDS = 5
KILL_EVERY_S = 5
IN_FLIGHT_MIN = 100
STOPPED_S = 15
DOUBLED_S = 10
SETTLE_S = 300
LATENCY = "cluster.latency_ms=600"
ZOMBIE = ("-m", "tests.e2e.zombie_serve")


def openb(repeat: int) -> str:
    """The trace's main job as an even flow of arrivals, pods ending after a while."""
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
        print(f"\n{trial.table()}\n{trial.status()}")


def replayed_in(run: Path, told: Sequence[str], environ: Mapping[str, str]) -> Ran:
    """Replay from the start and from every snapshot, in another environment."""
    return muster("replay", run, *told, "--from", "each", cwd=ROOT, **environ)


async def test_three_shards_bind_a_flood_end_cleanly_and_replay_from_the_broker(broker, tmp_path):
    world = "flood:pods=3000,rate=600,nodes=60"
    async with Trial(tmp_path / "shards", broker.bootstrap, world, placements=3) as trial:
        await trial.settle(SETTLE_S)
        assert len(trial.journals.bound) == 3_000
        mesh = trial.mesh
        told = ("--bus", mesh.bus, "--placements", "3", "--output", "json")
        for environ in OTHER_MACHINES:
            done = await asyncio.to_thread(replayed_in, mesh.folder / "run", told, environ)
            assert done.code == 0, done
            replayed = done.json()["journals"]
            assert {one["journal"] for one in replayed} == set(all_journals(3))
            assert all(one["ok"] and one["stop"] > 0 for one in replayed)
            assert any(one["start"] > 0 for one in replayed), "no snapshot to begin from"
        done = await asyncio.to_thread(muster, "story", "pod/flood-7", mesh.folder / "run", *told)
        assert any("bound default/flood-7 on " in line["text"] for line in json.loads(done.out))


async def test_every_service_is_killed_five_times(broker, tmp_path):
    async with Trial(tmp_path / "killed", broker.bootstrap, openb(7), settings=[LATENCY]) as trial:
        for number in range(2 * ROUNDS):
            await many_in_flight(trial)
            three = [all_journals(1)[(number + 2 * place) % 6] for place in range(3)]
            trial.kill(*three)
            await asyncio.sleep(KILL_EVERY_S)
            await trial.until(partial(trial.acts_again, *three), SETTLE_S, f"{three} act again")
        await settle_and_show(trial)
        created_ms = [one.time_ms for one in trial.happened if one.kind == "create"]
        span_ms = created_ms[-1] - created_ms[0]
        assert span_ms >= 60_000
        assert len(created_ms) >= ARRIVALS_PER_S * span_ms / 1000
        assert Counter(one.journal for one in trial.hurts) == dict.fromkeys(all_journals(1), ROUNDS)
        for one in trial.hurts:
            flying = trial.journals.in_flight_at(one.at_ms)
            assert flying >= IN_FLIGHT_MIN, f"{one}: {flying} in flight"
        for journal in all_journals(1):
            assert len(trial.journals.claims_ms[journal]) > ROUNDS


async def stopped(trial: Trial, journal: str) -> None:
    """Stop the owner; the standby takes over; the owner goes on and finds out."""
    child = trial.mesh.services[journal]
    await many_in_flight(trial)
    trial.hurt(journal, "SIGSTOP")
    child.signal(signal.SIGSTOP)
    await asyncio.sleep(STOPPED_S)
    assert trial.journals.owners[journal] == [f"first-{journal}", f"standby-{journal}"]
    child.signal(signal.SIGCONT)
    trial.hurt(journal, "SIGCONT")


async def test_a_stopped_owner_is_replaced_and_stands_by(broker, tmp_path):
    async with Trial(tmp_path / "stopped", broker.bootstrap, openb(2), settings=[LATENCY]) as trial:
        pair = ("binding/0", "ingest/0")
        for journal in pair:
            trial.mesh.other(journal, "standby").until_said("serving")
        await asyncio.gather(*(stopped(trial, journal) for journal in pair))
        await settle_and_show(trial)
        for journal in pair:
            assert trial.journals.voids(journal) >= 1, "the old owner wrote nothing when it woke"


def refused_binds(child: Child, from_ms: int) -> Counter[str]:
    """What the cluster answered to a process's binds after a time, by answer."""
    found: Counter[str] = Counter()
    for line in child.log.with_suffix(".answers").read_text().splitlines():
        at_ms, counts = json.loads(line)
        if at_ms >= from_ms:
            found.update(counts)
    return found


async def test_two_owners_at_once_bind_every_pod_once(broker, tmp_path):
    pair = ("binding/0", "ingest/0")
    regardless = (*ZOMBIE, f"regardless:{DOUBLED_S}")
    async with Trial(
        tmp_path / "doubled",
        broker.bootstrap,
        openb(2),
        settings=[LATENCY],
        commands=dict.fromkeys(pair, regardless),
    ) as trial:
        await many_in_flight(trial)
        began_ms = now_ms()
        for journal in pair:
            trial.mesh.other(journal, "second", (*ZOMBIE, "forced"))
            trial.hurt(journal, "doubled")
        await asyncio.sleep(DOUBLED_S + 5)
        await settle_and_show(trial)
        for journal in pair:
            assert trial.journals.owners[journal][:2] == [f"first-{journal}", f"second-{journal}"]
            assert trial.journals.voids(journal) >= 20, "the first did not go on"
            assert "going on regardless" in trial.mesh.services[journal].said()
        answers = [
            refused_binds(child, began_ms)
            for child in (trial.mesh.services["binding/0"], trial.mesh.others[0])
        ]
        print("binds by answer, first and second owner:", answers)
        for one in answers:
            assert one["DONE"], "both had effects"
        late = sum(one["STALE"] + one["ASSIGNED"] + one["GONE"] for one in answers)
        assert late >= IN_FLIGHT_MIN, "binds that came second were refused by the cluster"


async def test_the_broker_is_killed_and_comes_back(broker, tmp_path):
    async with Trial(tmp_path / "broken", broker.bootstrap, openb(2), settings=[LATENCY]) as trial:
        for _ in range(2):
            await many_in_flight(trial)
            for journal in all_journals(1):
                trial.hurt(journal, "broker")
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            await asyncio.sleep(4)
        await settle_and_show(trial)
