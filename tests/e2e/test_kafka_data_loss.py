"""A mesh over a broker that loses its journals, or seems to: two processes over real Kafka."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from loadtest.processes import Child
from muster.app.journals import all_journals
from muster.cli.addresses.cluster import open_cluster, parse_cluster
from shared.bus.kafka.settings import KafkaSettings
from shared.bus.kafka.topics import MESSAGE_BYTES_MAX, topic_settings
from shared.events.observed import PodsSeen
from shared.model.columns import split
from tests.e2e.console import muster
from tests.support.kafka_server import INSTALL_COMMAND, KafkaServer, java_kafka_installed
from tests.support.required_tools import require_tool

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.xdist_group("kafka-processes")]
PATIENCE_S = 300.0
OUTAGE_S = 12.0
NO_RECORD_FITS_BYTES = 64  # a batch's header alone takes 61
HALVES = {
    "outer": ["ingest", "binding"],
    "inner": ["queueing", "placement", "permit", "preemption"],
}


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaServer]:
    """Yield a broker run by Java: the tests stop it and remove its data."""
    require_tool("kafka", INSTALL_COMMAND, found=java_kafka_installed())
    with KafkaServer() as server:
        yield server


class Halves:
    """A cluster with a few pods a second and the mesh in two processes; ends with `with`."""

    def __init__(self, folder: Path, broker: KafkaServer, prefix: str, pods: int) -> None:
        self.cluster_address = f"unix:{folder / 'c.sock'}"
        self.bus = f"kafka://{broker.bootstrap}/{prefix}"
        self.run = folder / "run"
        world = f"flood:pods={pods},nodes=20,rate=20"
        words = ["cluster", world, "--listen", self.cluster_address]
        self.cluster = self._child(folder, "cluster", words)
        self.services = {}
        for name, services in HALVES.items():
            words = ["serve", *services, "--bus", self.bus, "--cluster", self.cluster_address]
            words += ["--run-dir", str(self.run), "--snapshot-seconds", "1", "--owner", name]
            self.services[name] = self._child(folder, name, words)

    def _child(self, folder: Path, name: str, words: list[str]) -> Child:
        return Child(folder / f"{name}.log", words, ("-m", "muster"), {})

    def start(self) -> None:
        """Start the services; returns when all serve."""
        for child in self.services.values():
            child.start()
        for child in self.services.values():
            child.until_said("serving")

    def reset(self) -> None:
        """Run the reset that the messages ask for."""
        words = ["--bus", self.bus, "--cluster", self.cluster_address, "--reason", "lost"]
        done = muster("reset", *words)
        assert done.code == 0, done

    def bound(self) -> int:
        """Return the number of pods that the cluster reports as bound."""
        return asyncio.run(count_bound(self.cluster_address))

    def until_bound(self, count: int) -> None:
        """Raises AssertionError with the services' output."""
        until(lambda: self.bound() >= count, self.said)

    def said(self) -> str:
        """Return the output of the services."""
        return "\n".join(child.said()[-2_000:] for child in self.services.values())

    def last_lines(self) -> list[str]:
        """Return the last line of each service, once all have ended with exit code 1."""
        until(lambda: not any(child.runs for child in self.services.values()), self.said)
        found = []
        for child in self.services.values():
            assert child.code == 1, child.said()
            assert "Traceback" not in child.said(), child.said()
            found.append(child.said().splitlines()[-1])
        return found

    def __enter__(self) -> "Halves":
        self.cluster.start()
        try:
            self.cluster.until_said("listening on")
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        for child in (*self.services.values(), self.cluster):
            child.kill()


def until(holds: Callable[[], bool], shown: Callable[[], str]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, shown()
        time.sleep(0.1)


def test_an_outage_and_a_restart_with_all_data_are_waited_for(broker, tmp_path):
    with Halves(tmp_path, broker, "kept", pods=300) as mesh:
        mesh.until_bound(20)
        os.kill(broker.pid, signal.SIGSTOP)
        time.sleep(OUTAGE_S)
        os.kill(broker.pid, signal.SIGCONT)
        mesh.until_bound(mesh.bound() + 20)
        broker.kill()
        time.sleep(OUTAGE_S / 2)
        broker.start()
        mesh.until_bound(300)
        assert all(child.runs for child in mesh.services.values()), mesh.said()
        assert "is gone" not in mesh.said()


def test_a_deleted_topic_ends_every_process_until_a_reset(broker, tmp_path):
    with Halves(tmp_path, broker, "deleted", pods=200) as mesh:
        mesh.until_bound(20)
        asyncio.run(delete_topic(broker.bootstrap, "deleted.permit"))
        began_s = time.monotonic()
        for line in mesh.last_lines():
            assert "topic deleted.permit is gone from the broker" in line
            assert "'muster reset'" in line
        print(f"ended {time.monotonic() - began_s:.1f} s after the topic was deleted")
        mesh.start()  # which makes the topic again
        for line in mesh.last_lines():
            assert "permit/0: ends at 0, but went up to" in line
        mesh.reset()
        mesh.start()
        mesh.until_bound(200)


def test_a_record_over_the_topics_limit_ends_its_owner_and_nothing_is_lost(broker, tmp_path):
    with Halves(tmp_path, broker, "large", pods=200) as mesh:
        mesh.until_bound(20)
        asyncio.run(set_limit(broker.bootstrap, "large.queueing", NO_RECORD_FITS_BYTES))
        inner = mesh.services["inner"]
        until(lambda: not inner.runs, mesh.said)
        assert inner.code == 1, inner.said()
        assert "Traceback" not in inner.said(), inner.said()
        line = "topic large.queueing: max.message.bytes is too small for a record of "
        assert line in inner.said().splitlines()[-1]
        asyncio.run(set_limit(broker.bootstrap, "large.queueing", MESSAGE_BYTES_MAX))
        inner.start()
        mesh.until_bound(200)


def test_a_broker_that_comes_back_empty_ends_every_process(broker, tmp_path):
    with Halves(tmp_path, broker, "wiped", pods=200) as mesh:
        mesh.until_bound(20)
        until(lambda: len(list(mesh.run.rglob("*.manifest"))) >= len(all_journals(1)), mesh.said)
        broker.kill()
        shutil.rmtree(broker.data)
        broker.start()
        began_s = time.monotonic()
        for line in mesh.last_lines():
            assert "topic wiped." in line
            assert "is gone from the broker" in line
        print(f"ended {time.monotonic() - began_s:.1f} s after the broker was back")
        mesh.reset()
        mesh.start()
        for line in mesh.last_lines():
            assert "ends at 1, but went up to" in line or "ends at 0, but went up to" in line
            assert "empty --run-dir" in line
        shutil.rmtree(mesh.run)
        mesh.start()
        mesh.until_bound(200)


async def count_bound(address: str) -> int:
    cluster = open_cluster(parse_cluster("--cluster", address))
    try:
        listed = await cluster.list_all("pods")
    finally:
        await cluster.close()
    seen = [event for event in listed.events if isinstance(event, PodsSeen) and event.nodes]
    return sum(node != "-" for event in seen for node in split(event.nodes))


async def set_limit(bootstrap: str, topic: str, size_bytes: int) -> None:
    settings = KafkaSettings(bootstrap=bootstrap, replication_factor=1, min_insync_replicas=1)
    configs = topic_settings(settings) | {"max.message.bytes": str(size_bytes)}
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])
    await admin.close()


async def delete_topic(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.delete_topics([topic])
    await admin.close()
