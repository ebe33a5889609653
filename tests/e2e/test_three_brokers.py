"""A mesh over three brokers with TLS and SASL. In a flood with spread and gangs a broker in turn is
killed, frozen, or left with a full disk, and a service is killed meanwhile.

`MUSTER_FLOOD_PODS=50000 make test T=tests/e2e/test_three_brokers.py` is the long form.
"""

import asyncio
import gc
import itertools
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.app.journals import all_journals
from tests.e2e import recovery_times
from tests.e2e.trial import FETCHED_S, Trial
from tests.support.kafka_cluster import BROKERS, KafkaCluster, fill_disk, running_cluster
from tests.support.kafka_server import KafkaServer

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.xdist_group("kafka-processes")]

SHARDS = 2
PODS = int(os.environ.get("MUSTER_FLOOD_PODS", "3000"))
WAVE = 20
FLOOD_S = max(75, PODS // 400)
NODES = max(60, PODS // 200)
IN_FLIGHT_MIN = 10
LOST_S, LOOK_S, SETTLE_S = 4.0, 0.5, 300.0
LATENCY = "cluster.latency_ms=2000"
NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-AT, labels: {topology.kubernetes.io/zone: zone-ZONE}}
status: {allocatable: {cpu: "32", memory: 128Gi, pods: "110"}}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: wave-AT
  annotations: {muster.io/arrives-after: AFTERms, muster.io/runs-for: 20s}
spec:
  parallelism: COUNT
  completions: COUNT
  template:
    metadata: {labels: {wave: "AT"}}
    spec:
      restartPolicy: Never
      containers: [{name: main, resources: {requests: {cpu: 200m, memory: 256Mi}}}]
"""
SPREAD = """
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: DoNotSchedule
          labelSelector: {matchLabels: {wave: "AT"}}
"""
GANG = """
      workloadRef: {name: gangs-AT, podGroup: all}
---"""
WORKLOAD = """
apiVersion: scheduling.k8s.io/v1alpha1
kind: Workload
metadata: {name: gangs-AT}
spec: {podGroups: [{name: all, policy: {gang: {minCount: COUNT}}}]}
"""


def flood(pods: int) -> str:
    """Return manifests: waves of equal size in turn spread over zones, plain, and as gangs."""
    parts = [NODE.replace("AT", str(at)).replace("ZONE", "abc"[at % 3]) for at in range(NODES)]
    for at in range(pods // WAVE):
        after_ms = at * WAVE * FLOOD_S * 1000 // pods
        text = JOB.rstrip("\n") + ("\n" + SPREAD.lstrip("\n"), "\n", GANG + WORKLOAD)[at % 3]
        text = text.replace("AT", str(at)).replace("AFTER", str(after_ms))
        parts.append(text.replace("COUNT", str(WAVE)))
    return "---".join(parts)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    yield from running_cluster(tmp_path_factory.mktemp("brokers"))


LOSSES: dict[str, Callable[[KafkaServer], None]] = {
    "kill -9": KafkaServer.kill,
    "SIGSTOP": KafkaServer.pause,
    "disk full": fill_disk,
}


async def lose(trial: Trial, cluster: KafkaCluster, number: int, loss: str) -> None:
    """Lose a broker for some seconds, and kill a service meanwhile."""
    broker, journals = cluster.brokers[number % BROKERS], all_journals(SHARDS)
    await trial.until(
        lambda: trial.journals.in_flight() >= 2 * IN_FLIGHT_MIN, SETTLE_S, "pods in flight"
    )
    await asyncio.to_thread(LOSSES[loss], broker)
    await asyncio.sleep(FETCHED_S)
    for journal in journals:
        trial.hurt(journal, f"1 of 3: {loss}")
    await asyncio.sleep(LOST_S / 2)
    victim = journals[2 * number % len(journals)]
    trial.kill(victim)
    await asyncio.sleep(LOST_S / 2)
    await trial.until(lambda: trial.acts_again(victim), SETTLE_S, f"{victim} acts again")
    lost_ms = trial.hurts[-1].at_ms
    await trial.until(lambda: _act(trial, lost_ms), SETTLE_S, "all act without the broker")
    if loss == "SIGSTOP":
        broker.resume()
    else:
        assert not broker.runs
        broker.kill()
        await asyncio.to_thread(broker.start)
    async with asyncio.timeout(SETTLE_S):
        while not await cluster.is_whole(trial.mesh.folder.name):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)


def _act(trial: Trial, after_ms: int) -> bool:
    """Return whether every service has recorded something after a time."""
    return all(acts_ms[-1] > after_ms for acts_ms in trial.journals.acts_ms.values())


# The library leaves a socket to the collector if a frozen broker does not end a TLS handshake.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_each_broker_is_lost_in_a_flood(cluster: KafkaCluster, tmp_path: Path):
    world = tmp_path / "flood.yaml"
    world.write_text(flood(PODS))
    async with Trial(
        tmp_path / "brokers",
        cluster.bootstrap,
        str(world),
        SHARDS,
        settings=[LATENCY],
        query=cluster.query,
    ) as trial:
        for number, loss in enumerate(itertools.cycle(LOSSES)):
            if number >= len(LOSSES) and len(trial.journals.seen_ms) > 0.8 * trial.total:
                break
            await lose(trial, cluster, number, loss)
        await trial.settle(SETTLE_S)
        found = trial.recovered()
        recovery_times.write(trial.mesh.folder.name, found)
        print("", *found, trial.status(), sep="\n")
    gc.collect()
    assert len(trial.journals.bound) == trial.total
    for loss in LOSSES:
        busy = [one.in_flight for one in found if one.what == f"1 of 3: {loss}"]
        assert max(busy) >= IN_FLIGHT_MIN, f"{loss}: {busy} in flight"
