"""`muster serve --kubeconfig` over Kafka: a process for each service, killed at random."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.checker.journals import SERVICES, of_kafka
from tests.live.support.case import Case
from tests.live.support.objects import PODS, Running, create_nodes, nodes_of, pod, until
from tests.live.test_why import get, why
from tests.support.etcd_history import EtcdHistory
from tests.support.kafka_brokers import running_broker
from tests.support.kafka_server import KafkaBroker
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
PODS_EACH = 60
SEED = 7


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    yield from running_broker()


def test_services_that_are_killed_lose_nothing(
    cluster: KubeServers, broker: KafkaBroker, tmp_path: Path
):
    """Two at a time in the middle of a burst of pods, which ones and when drawn by chance."""
    api, draw = cluster.api, random.Random(SEED)
    create_nodes(api, [f"server-{number}" for number in range(20)], cpu=4)

    def serve(service: str) -> Running:
        words = ["serve", service, "--bus", f"kafka://{broker.bootstrap}/live"]
        paths = ["--kubeconfig", str(cluster.kubeconfig), "--run-dir", str(tmp_path / "run")]
        return Running([*words, *paths, "--owner", service], tmp_path / f"log-{service}")

    running: dict[str, Running] = {}
    with EtcdHistory(cluster.at.etcd_url) as history:
        case = Case(cluster, history)
        try:
            for service in SERVICES:
                running[service] = serve(service)
            api.create(PODS, pod("first", cpu="50m")).ok()
            asked = (tmp_path, "default/first", "--bus", f"kafka://{broker.bootstrap}/live")
            until("the outcome is recorded", lambda: _decided_by(why(*asked)) == "binding/0")
            until("all services have started", lambda: _starts(broker) == [1] * len(SERVICES))
            order = draw.sample(SERVICES, len(SERVICES))
            for pair in zip(order[::2], order[1::2], strict=True):
                dies_at = draw.sample(range(PODS_EACH), 2)
                for number in range(PODS_EACH):
                    api.create(PODS, pod(f"{pair[0]}-{number}", cpu="50m")).ok()
                    if number in dies_at:
                        running[pair[dies_at.index(number)]].kill()
                assert not all(nodes_of(api).values()), "nothing was in flight"
                for service in pair:
                    running[service].__exit__(None, None, None)
                    running[service] = serve(service)
                until("all bound", lambda: all(nodes_of(api).values()))
            until("each was started twice", lambda: _starts(broker) == [2] * len(SERVICES))
            journals = asyncio.run(of_kafka(broker.bootstrap, "live"))
            verdict = case.verdict(journals)
            answer = why(*asked)
            listed = [get(tmp_path, kind, *asked[2:]) for kind in ("pods", "nodes", "gangs")]
        finally:
            for process in running.values():
                process.__exit__(None, None, None)
    assert verdict.problems == [], "\n".join(verdict.problems)
    assert (verdict.bound, verdict.races) == (3 * PODS_EACH + 1, [])
    assert (answer["state"], _decided_by(answer)) == ("bound", "binding/0")
    pods, nodes, gangs = listed
    assert [one["state"] for one in pods] == ["bound"] * verdict.bound
    assert (len(nodes), sum(one["pods"] for one in nodes), gangs) == (20, verdict.bound, [])


def _starts(broker: KafkaBroker) -> list[int]:
    """Return for each service how often a process has claimed its journal."""
    journals = asyncio.run(of_kafka(broker.bootstrap, "live"))
    found = ([entry for entry in journals[f"{name}/0"] if entry.owner] for name in SERVICES)
    return [len(claims) for claims in found]


def _decided_by(answer: dict[str, Any]) -> str:
    """ "" while the pod does not exist."""
    return str(answer["decided"]["journal"]) if answer else ""
