"""Ten thousand pods that are listed again: what vanished meanwhile is noticed, and nothing else is;
also when whoever lists is stopped in the middle, and somebody else goes on.

Who owns a journal is said by claims in it; there is no Lease object (docs/live.md).
"""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from shared.testing.etcd_history import EtcdHistory
from shared.testing.etcd_store import EtcdStore
from shared.testing.kube_credentials import ADMIN
from shared.testing.kube_options import KubeOptions
from shared.testing.kube_proxy import Fault, Kind
from shared.testing.kube_proxy_thread import ProxyThread, proxy_thread
from shared.testing.kube_server import KubeServers
from tests.live.case import Case
from tests.live.checker import journals
from tests.live.conftest import NewCluster
from tests.live.world import LEASES, PODS, Running, create_nodes, here, pod, until

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
NODES, PER_NODE = 100, 100
VANISHED, LAST = 4_000, 500
KEYS = "/registry/pods/default/"
STOPPED_S, SOON_S = 30.0, 5.0
WATCH = r"^/api/v1/pods\?watch=1"
SECOND_PAGE = r"^/api/v1/pods\?limit=.*continue="
OTHERS = ("queueing", "placement", "permit", "preemption", "binding")


@dataclass
class World:
    """The cluster, who watches it for us, and what they write."""

    servers: KubeServers
    history: EtcdHistory
    proxy: ProxyThread
    folder: Path
    # The one whose requests go through the proxy.
    ingest: Running = field(init=False)

    def serve(self, owner: str, *services: str, through: bool = False) -> Running:
        """Some services; ingest's requests may go through the proxy."""
        url = self.proxy.proxy.url if through else None
        config = self.servers.write_kubeconfig(self.folder / owner, ADMIN, url=url)
        bus = f"sqlite:{self.folder / 'journals.db'}"
        words = ["serve", *services, "--bus", bus, "--run-dir", str(self.folder / "run")]
        return Running(
            [*words, "--kubeconfig", str(config), "--owner", owner], self.folder / f"log-{owner}"
        )

    def asks(self, name: str, cpu: str = "0") -> None:
        """A new pod of ours."""
        self.servers.api.create(PODS, pod(name, cpu=cpu)).ok()

    def is_bound(self, name: str) -> bool:
        found = self.servers.api.get(f"{PODS}/{name}").ok()
        return bool(found["spec"].get("nodeName"))

    def deletes(self, goes: str) -> int:
        """Some of the pods that were there, all at once; how many."""
        return EtcdStore(self.servers.at.etcd_url).delete_all(f"{KEYS}{goes}-")

    def owners(self) -> list[str]:
        """Who claimed the world journal, in order."""
        found = journals.of_file(self.folder / "journals.db")["ingest/0"]
        return [entry.owner for entry in found if entry.owner]

    def check(self, case: Case) -> None:
        verdict = case.verdict(journals.of_file(self.folder / "journals.db"))
        assert verdict.problems == [], "\n".join(verdict.problems[:9])
        assert (verdict.races, verdict.waiting) == ([], 1)


@pytest.fixture(scope="module")
def world(new_cluster: NewCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Every node is full of other people's pods."""
    servers = new_cluster(KubeOptions(storage_json=True))
    names = [f"node-{number}" for number in range(NODES)]
    create_nodes(servers.api, names, cpu=PER_NODE)
    fill(servers, names)
    with ExitStack() as stack:
        history = stack.enter_context(EtcdHistory(servers.at.etcd_url))
        proxy = stack.enter_context(proxy_thread(servers.at))
        world = World(servers, history, proxy, tmp_path_factory.mktemp("relist"))
        stack.enter_context(world.serve("others", *OTHERS))
        world.ingest = stack.enter_context(world.serve("first", "ingest", through=True))
        # It waits as long as there are tests, and must say why all the time.
        world.asks("endless", cpu="1000")
        world.asks("before")
        until("the world is known", lambda: world.is_bound("before"))
        yield world


def fill(servers: KubeServers, names: list[str]) -> None:
    """As many pods as there is room. One is made by the API server, which stores it in its own way;
    the others are stored like it.
    """
    one = pod("theirs", cpu="1", scheduler="theirs", nodeName=names[0])
    servers.api.create(PODS, one).ok()
    store = EtcdStore(servers.at.etcd_url)
    like = json.loads(store.get(KEYS + "theirs"))
    store.delete_all(KEYS + "theirs")

    def stored(number: int) -> tuple[str, bytes]:
        goes = "first" if number < VANISHED else "last" if number < VANISHED + LAST else "never"
        name = f"{goes}-{number}"
        like["metadata"] |= {"name": name, "uid": f"00000000-0000-0000-0000-{number:012}"}
        like["spec"]["nodeName"] = names[number % len(names)]
        return KEYS + name, json.dumps(like).encode()

    store.put_all(map(stored, range(len(names) * PER_NODE)))


def test_what_vanished_while_nobody_watched_is_found_by_a_list(world: World):
    case, proxy = Case(world.servers, world.history), world.proxy
    until("it watches", lambda: proxy.proxy.watches(WATCH) == 1)
    away = proxy.add(Fault(kind=Kind.REFUSE, path=WATCH, times=10_000))
    assert proxy.cut(WATCH) == 1
    assert world.deletes("first") == VANISHED
    for number in range(100):
        world.asks(f"large-{number}", cpu="30")
    proxy.over(away)
    expired = proxy.add(Fault(kind=Kind.REFUSE, path=WATCH, status=410))
    until("all bound", lambda: all(world.is_bound(f"large-{number}") for number in range(100)))
    assert expired.times == 0
    listed = [
        event["derived_deletes"]
        for entry in journals.of_file(world.folder / "journals.db")["ingest/0"]
        for event in entry.of("list_applied")
        if event["kind"] == "pods"
    ]
    assert listed == [0, VANISHED]
    world.check(case)


def test_ingest_that_is_stopped_in_the_middle_of_a_list(world: World):
    """Somebody else takes over; when it wakes up, nobody listens to what it read."""
    case, proxy = Case(world.servers, world.history), world.proxy
    until("it watches", lambda: proxy.proxy.watches(WATCH) == 1)
    with world.serve("second", "ingest"):
        page = proxy.add(Fault(kind=Kind.HOLD, path=SECOND_PAGE))
        expired = proxy.add(Fault(kind=Kind.REFUSE, path=WATCH, status=410))
        assert proxy.cut(WATCH) == 1
        until("it lists", lambda: page.times == 0)
        assert expired.times == 0
        world.ingest.process.send_signal(signal.SIGSTOP)
        stopped_s = time.monotonic()
        proxy.over(page)
        assert world.deletes("last") == LAST
        world.asks("meanwhile", cpu="5")
        until("somebody took over", lambda: world.is_bound("meanwhile"))
        time.sleep(max(0.0, stopped_s + STOPPED_S - time.monotonic()))
        world.ingest.process.send_signal(signal.SIGCONT)
        world.asks("after")
        until("it is seen", lambda: world.is_bound("after"), limit_s=here(SOON_S))
        assert world.owners() == ["first", "second"]
        world.check(case)
        claim_is_taken_away(world)
    # The first one has stood by since, and goes on.
    world.asks("last")
    until("the first goes on", lambda: world.is_bound("last"))
    assert world.owners()[-1] == "first"
    world.check(case)


def claim_is_taken_away(world: World) -> None:
    """What deleting a Lease would be: the owner's claim ends while it runs."""
    case = Case(world.servers, world.history)
    world.servers.api.request("DELETE", LEASES).ok()
    # Of the same name: it need not wait until the other one is silent.
    with world.serve("second", "ingest"):
        until("it claims", lambda: len(world.owners()) == 3)
        world.asks("claimed")
        until("it is seen", lambda: world.is_bound("claimed"), limit_s=here(SOON_S))
        assert world.owners() == ["first", "second", "second"]
        world.check(case)
