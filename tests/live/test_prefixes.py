"""`muster serve` over a broker that wants TLS and SASL binds pods. A second mesh with the same
prefix is refused if it is of another cluster, and warned if it has other scheduler names.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.e2e.console import muster
from tests.live.checker.journals import of_kafka
from tests.live.conftest import NewCluster
from tests.live.support.objects import PODS, Running, create_nodes, nodes_of, pod, until
from tests.support.kafka_brokers import Secured, secured_broker
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
PREFIX = "shared"
FIRST = ("ingest", "queueing", "permit")
SECOND = ("placement", "preemption", "binding")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    yield from secured_broker(tmp_path_factory.mktemp("tls"))


def bus_of(broker: Secured) -> str:
    settings = broker.settings
    named = {
        name: getattr(settings, name)
        for name in ("ssl_ca_file", "ssl_cert_file", "ssl_key_file", "sasl_password_file")
    }
    named |= {"security_protocol": "SASL_SSL", "sasl_username": settings.sasl_username}
    return f"kafka://{settings.bootstrap}/{PREFIX}?{urlencode(named)}"


def test_a_prefix_belongs_to_one_cluster(
    cluster: KubeServers, new_cluster: NewCluster, broker: Secured, tmp_path: Path
):
    ours, other = cluster, new_cluster()

    def words(servers: KubeServers, services: Sequence[str], owner: str) -> list[str]:
        reached = ["--bus", bus_of(broker), "--kubeconfig", str(servers.kubeconfig)]
        folder = tmp_path / f"run-{servers is ours}"
        return ["serve", *services, *reached, "--owner", owner, "--run-dir", str(folder)]

    def bind(name: str) -> None:
        ours.api.create(PODS, pod(name)).ok()
        until(f"{name} is bound", lambda: bool(nodes_of(ours.api)[name]))

    for servers in (ours, other):
        create_nodes(servers.api, ["node"])
    with ExitStack() as stack:
        for services in (FIRST, SECOND):
            asked = words(ours, services, services[0])
            stack.enter_context(Running(asked, tmp_path / f"log-{services[0]}"))
        bind("before")

        # Under the owner's own name too: it would claim at once, as after a restart.
        for again in (words(other, FIRST, "ingest"), words(other, ("binding",), "b")):
            refused = muster(*again)
            assert refused.code == 2, refused
            line = refused.err.splitlines()[-1]
            assert "/0: this journal is of cluster " in line
            assert "choose another prefix than in --bus" in line

        names = ["--scheduler-name", "other"]
        stranger = Running(words(ours, ("ingest",), "c") + names, tmp_path / "log-c")
        stack.enter_context(stranger)
        until("it says whose it is", lambda: "schedulers muster" in stranger.said())
        bind("after")
    assert not any(nodes_of(other.api).values())
    journals = asyncio.run(of_kafka(broker.plain, PREFIX))
    for services in (FIRST, SECOND):
        for service in services:
            owners = {entry.owner for entry in journals[f"{service}/0"] if entry.owner}
            assert owners == {services[0]}
