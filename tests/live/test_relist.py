"""Ten thousand pods are listed again: deleted pods are noticed, and nothing else changes, even if
ingest is stopped in the middle and another owner continues.

Services in separate processes own their journals by claims in them, not by a Lease
(docs/reference/live-cluster.md). test_leader.py deletes the Lease of a `muster run`.
"""

import json
import os
import re
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.live.checker import journals
from tests.live.conftest import NewCluster
from tests.live.support.case import Case
from tests.live.support.objects import (
    LEASES,
    PATIENCE_S,
    PODS,
    Running,
    create_nodes,
    here,
    pod,
    until,
)
from tests.support.etcd_history import EtcdHistory
from tests.support.etcd_store import EtcdStore
from tests.support.kube_credentials import ADMIN
from tests.support.kube_options import KubeOptions
from tests.support.kube_proxy import Fault, Kind
from tests.support.kube_proxy_thread import ProxyThread, proxy_thread
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
NODES, PER_NODE = 100, 100
VANISHED, LATER, LAST = 4_000, 500, 500
LABELS = 4_000
"""Pods with different labels are recorded separately, and a record holds at most 1,024 events."""
KEYS = "/registry/pods/default/"
STOPPED_S, SOON_S, STEP_S = 30.0, 5.0, 0.01
WATCH = r"^/api/v1/pods\?watch=1"
FIRST_PAGE = r"^/api/v1/pods\?limit=(\d+)"
SECOND_PAGE = r"^/api/v1/pods\?limit=.*continue="
OTHERS = ("queueing", "placement", "permit", "preemption", "binding")


@dataclass
class World:
    """The cluster, the owner that watches it, and its journal."""

    servers: KubeServers
    history: EtcdHistory
    proxy: ProxyThread
    folder: Path
    # The one whose requests go through the proxy.
    ingest: Running = field(init=False)

    def serve(self, owner: str, *services: str, through: bool = False) -> Running:
        """Start some services; ingest's requests may go through the proxy."""
        url = self.proxy.proxy.url if through else None
        config = self.servers.write_kubeconfig(self.folder / owner, ADMIN, url=url)
        bus = f"sqlite:{self.folder / 'journals.db'}"
        words = ["serve", *services, "--bus", bus, "--run-dir", str(self.folder / "run")]
        # Each test has a mesh of its own on one API server.
        words.append("--no-leader-elect")
        return Running(
            [*words, "--kubeconfig", str(config), "--owner", owner], self.folder / f"log-{owner}"
        )

    def asks(self, name: str, cpu: str = "0") -> None:
        """Create a pod for our scheduler."""
        self.servers.api.create(PODS, pod(name, cpu=cpu)).ok()

    def is_bound(self, name: str) -> bool:
        found = self.servers.api.get(f"{PODS}/{name}").ok()
        return bool(found["spec"].get("nodeName"))

    def deletes(self, goes: str) -> int:
        """Delete some of the existing pods at once; return their number."""
        return EtcdStore(self.servers.at.etcd_url).delete_all(f"{KEYS}{goes}-")

    def records(self) -> list[journals.Entry]:
        """Return the records of the world journal."""
        return journals.of_file(self.folder / "journals.db", ["ingest"])["ingest/0"]

    def owners(self) -> list[str]:
        """Return the owners that claimed the world journal, in order."""
        return [entry.owner for entry in self.records() if entry.owner]

    def lists(self) -> list[tuple[str, str]]:
        """Return the begins and ends of pod lists in the world journal, with the owner of each."""
        found, owner = [], ""
        for entry in self.records():
            owner = entry.owner or owner
            heard = entry.heard("list_began", "list_ended")
            found += [(owner, event["type"]) for event in heard if event["kind"] == "pods"]
        return found

    def derived(self) -> list[int]:
        """Return how many pods each list of pods deleted."""
        applied = [event for entry in self.records() for event in entry.of("list_applied")]
        return [event["derived_deletes"] for event in applied if event["kind"] == "pods"]

    def gone(self) -> int:
        """Return how many pods the world journal deleted, for any reason."""
        events = [event for entry in self.records() for event in entry.of("pods_gone")]
        return sum(len(journals.column(event["ids"])) for event in events)

    def check(self, case: Case) -> None:
        verdict = case.verdict(journals.of_file(self.folder / "journals.db"))
        assert verdict.problems == [], "\n".join(verdict.problems[:9])
        assert (verdict.races, verdict.waiting) == ([], 1)


@pytest.fixture(scope="module")
def world(new_cluster: NewCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a world whose nodes are full of another scheduler's pods."""
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
        # It waits throughout the tests, and must have a message all the time.
        world.asks("endless", cpu="1000")
        world.asks("before")
        until("the world is known", lambda: world.is_bound("before"))
        yield world


def fill(servers: KubeServers, names: list[str]) -> None:
    """Create as many pods as there is room. The API server creates one and stores it in its own
    form; the others are stored in the same form.
    """
    one = pod("theirs", cpu="1", scheduler="theirs", nodeName=names[0])
    servers.api.create(PODS, one).ok()
    store = EtcdStore(servers.at.etcd_url)
    like = json.loads(store.get(KEYS + "theirs"))
    store.delete_all(KEYS + "theirs")

    def stored(number: int) -> tuple[str, bytes]:
        parts = ("first", VANISHED), ("later", VANISHED + LATER), ("last", VANISHED + LATER + LAST)
        goes = next((part for part, below in parts if number < below), "never")
        name, labels = f"{goes}-{number}", {"number": str(number % LABELS)}
        uid = f"00000000-0000-0000-0000-{number:012}"
        like["metadata"] |= {"name": name, "uid": uid, "labels": labels}
        like["spec"]["nodeName"] = names[number % len(names)]
        return KEYS + name, json.dumps(like).encode()

    store.put_all(map(stored, range(len(names) * PER_NODE)))


def test_objects_deleted_between_two_runs_are_found_by_a_list(world: World):
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
    assert world.derived() == [0, VANISHED]
    world.check(case)


def test_ingest_stopped_between_two_pages_of_a_list(world: World):
    """Of which nothing is in the journal yet."""
    case, proxy = Case(world.servers, world.history), world.proxy
    owners, lists, derived = world.owners(), world.lists(), world.derived()
    with world.serve("second", "ingest"):
        page = proxy.add(Fault(kind=Kind.HOLD, path=SECOND_PAGE))
        lists_again(world)
        until("it lists", lambda: page.times == 0)
        world.ingest.process.send_signal(signal.SIGSTOP)
        proxy.over(page)
        is_taken_over(world, "later", LATER)
        assert world.owners() == [*owners, "second"]
        assert (world.lists(), world.derived()) == (lists, derived)
        world.check(case)
    goes_on(world, "first-goes-on")
    world.check(case)


def test_ingest_stopped_with_half_a_list_in_the_journal(world: World):
    """A list that is open for 30 s, and void for every reader: the next owner lists again."""
    case, lists, derived = Case(world.servers, world.history), world.lists(), world.derived()
    with world.serve("second", "ingest"):
        page = holds_the_last_page(world)
        lists_again(world)
        until("it lists", lambda: page.times == 0)
        stop_in_a_bracket(world, page, lists)
        stopped_s = time.monotonic()
        assert world.lists() == [*lists, ("first", "list_began")]
        is_taken_over(world, "last", LAST, stopped_s + STOPPED_S)
        lists = [
            *lists,
            ("first", "list_began"),
            ("second", "list_began"),
            ("second", "list_ended"),
        ]
        derived = [*derived, LAST]
        assert world.owners()[-2:] == ["first", "second"]
        assert (world.lists(), world.derived()) == (lists, derived)
        world.check(case)
        claim_is_taken_away(world)
    goes_on(world, "first-goes-on-again")
    # The first one's list has no end.
    assert (world.lists(), world.derived()) == (lists, derived)
    world.check(case)


def lists_again(world: World) -> None:
    """End the first owner's watch so that it cannot be resumed."""
    proxy = world.proxy
    until("it watches", lambda: proxy.proxy.watches(WATCH) == 1)
    expired = proxy.add(Fault(kind=Kind.REFUSE, path=WATCH, status=410))
    assert proxy.cut(WATCH) == 1
    until("its watch is refused", lambda: expired.times == 0)


def holds_the_last_page(world: World) -> Fault:
    """Hold back the last page of the next list."""
    proxy = world.proxy
    asked = next(one.path for one in proxy.proxy.log if re.match(FIRST_PAGE, one.path))
    per_page = int(re.findall(FIRST_PAGE, asked)[0])
    others = world.servers.api.get(f"{PODS}?limit=1").ok()["metadata"]["remainingItemCount"]
    proxy.add(Fault(kind=Kind.SLOW, path=SECOND_PAGE, times=others // per_page - 1))
    return proxy.add(Fault(kind=Kind.HOLD, path=SECOND_PAGE))


def stop_in_a_bracket(world: World, page: Fault, lists: list[tuple[str, str]]) -> None:
    """Let it continue step by step, once it has the last page, until the journal has a list that
    began and did not end, and the file is not locked: a lock would stop other owners, as it would
    not on Kafka.
    """
    process = world.ingest.process
    process.send_signal(signal.SIGSTOP)
    world.proxy.over(page)
    began = [*lists, ("first", "list_began")]
    read, found = -1, lists

    def is_there() -> bool:
        nonlocal read, found
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        newest = journals.newest(world.folder / "journals.db", "ingest/0")
        if newest != read:  # reading it all at each step, the other would have taken over
            read, found = newest, world.lists()
        assert found in (lists, began), "it has listed all"
        return found == began and is_free(world.folder / "journals.db")

    end_s = time.monotonic() + PATIENCE_S
    while not is_there():
        assert time.monotonic() < end_s, "it does not list"
        process.send_signal(signal.SIGCONT)
        time.sleep(STEP_S)


def is_free(path: Path) -> bool:
    """Return whether no write is in progress."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True


def is_taken_over(world: World, name: str, count: int, wakes_s: float = 0.0) -> None:
    """An owner that follows live changes takes over. The first owner wakes up later, and its list
    has no effect.
    """
    gone = world.gone()
    assert world.deletes(name) == count
    world.asks(f"meanwhile-{name}", cpu="5")
    until("somebody took over", lambda: world.is_bound(f"meanwhile-{name}"))
    time.sleep(max(0.0, wakes_s - time.monotonic()))
    world.ingest.process.send_signal(signal.SIGCONT)
    world.asks(f"after-{name}")
    until("it is seen", lambda: world.is_bound(f"after-{name}"), limit_s=here(SOON_S))
    assert world.gone() == gone + count


def goes_on(world: World, name: str) -> None:
    """Check that the first owner, which has stood by, continues."""
    world.asks(name)
    until("the first goes on", lambda: world.is_bound(name))
    assert world.owners()[-1] == "first"


def claim_is_taken_away(world: World) -> None:
    """End the owner's claim while it runs, as deleting a Lease would."""
    case, owners = Case(world.servers, world.history), world.owners()
    world.servers.api.request("DELETE", LEASES).ok()
    # Of the same name: it need not wait until the other one is silent.
    with world.serve("second", "ingest"):
        until("it claims", lambda: len(world.owners()) > len(owners))
        world.asks("claimed")
        until("it is seen", lambda: world.is_bound("claimed"), limit_s=here(SOON_S))
        assert world.owners() == [*owners, "second"]
        world.check(case)
