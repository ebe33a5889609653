"""Objects of all other kinds, created, changed and deleted before a run, during it, and between two
runs: folding the world journal gives what the API server has.
"""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from shared.kubernetes.client.kinds import OTHER_KINDS
from tests.live.checker import journals
from tests.live.support import other_objects
from tests.live.support.objects import PODS, ROOT, muster_run, pod, until
from tests.live.support.other_objects import OTHERS
from tests.support.etcd_store import EtcdStore
from tests.support.kube_credentials import ADMIN
from tests.support.kube_proxy import Fault, Kind
from tests.support.kube_proxy_thread import ProxyThread, proxy_thread
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
PODS_WATCH, OTHER_WATCHES = r"^/api/v1/pods\?watch=1", r"^(?!/api/v1/pods\?).*watch=1"
SET = ("set", "gone")
TOUCH = {"metadata": {"annotations": {"touched": "yes"}}}


@dataclass
class World:
    """The objects on the server by uid, in the journal's form, and the journal of a run."""

    servers: KubeServers
    proxy: ProxyThread
    run: Path
    uids: dict[tuple[str, str], str] = field(default_factory=dict)
    there: dict[str, other_objects.Fields] = field(default_factory=dict)

    def make(self, name: str) -> None:
        """Create one object of every kind."""
        for kind in OTHER_KINDS:
            uid = other_objects.create(self.servers.api, kind, name)["uid"]
            self.uids[kind.name, name] = uid
            self.there[uid] = other_objects.published(kind, name, uid)

    def change(self, name: str) -> None:
        """Change all objects of that name."""
        for kind in OTHER_KINDS:
            if OTHERS[kind.resource].change:
                other_objects.patch(self.servers.api, kind, name, OTHERS[kind.resource].change)
                uid = self.uids[kind.name, name]
                self.there[uid] = other_objects.published(kind, name, uid, changed=True)

    def touch(self, name: str) -> None:
        """Change only fields that are not read."""
        for kind in OTHER_KINDS:
            other_objects.patch(self.servers.api, kind, name, TOUCH)

    def vanish(self, name: str) -> None:
        """Delete all objects of that name in etcd, past the API server."""
        store = EtcdStore(self.servers.at.etcd_url)
        for kind in OTHER_KINDS:
            assert store.delete_all(other_objects.key(kind, name)) == 1, kind
            del self.there[self.uids[kind.name, name]]

    def published(self) -> list[dict[str, Any]]:
        """Return the recorded facts in order."""
        found = journals.of_file(self.run / "journals.db").get("ingest/0", [])
        kinds = tuple(f"{of}_{what}" for of in ("objects", "storage", "devices") for what in SET)
        kinds = (*kinds, "list_applied")
        return [event for entry in found for event in entry.of(*kinds)]

    def consumed(self) -> int:
        """Return the revision at which the next run resumes."""
        found = journals.of_file(self.run / "journals.db")["ingest/0"]
        published = [event["revision"] for entry in found for event in entry.of("source_advanced")]
        return max(published, default=0)

    def fold(self) -> dict[str, other_objects.Fields]:
        """Return the objects that the journal's fold holds, by uid."""
        held: dict[str, other_objects.Fields] = {}
        for event in self.published():
            for one in event.get("objects", ()):
                held[one["uid"]] = {key: one[key] for key in one if key != "revision"}
            for uid in event.get("uids", "").split():
                del held[uid]
        return held

    def wrong(self) -> list[other_objects.Fields]:
        """Return the objects of ours that the fold lacks, and those that it should not have, apart
        from the server's own.
        """
        made, fold, api = {*self.uids.values()}, self.fold(), self._in_the_api()
        lacks = [one for uid, one in self.there.items() if fold.get(uid) != one]
        has = [one for uid, one in fold.items() if uid in made and self.there.get(uid) != one]
        return lacks + has + [{"uid": uid} for uid in sorted(api ^ fold.keys())]

    def agrees(self, when: str) -> None:
        """Wait until the fold equals the server's objects."""
        try:
            until(when, lambda: not self.wrong())
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.wrong()}") from error

    def _in_the_api(self) -> set[str]:
        items = (item for kind in OTHER_KINDS for item in self.servers.api.items(kind.path))
        return {item["metadata"]["uid"] for item in items}

    def found_gone(self, *counts: int) -> None:
        """Wait until the lists have deleted this many objects; a list's end is recorded after its
        content.
        """
        until(f"lists that found {counts} gone", lambda: self._deletes() == [*counts])

    def _deletes(self) -> list[int]:
        lists = [event for event in self.published() if event.get("kind") == "objects"]
        return [event["derived_deletes"] for event in lists]


@pytest.fixture
def world(cluster: KubeServers, tmp_path: Path) -> Iterator[World]:
    with proxy_thread(cluster.at) as proxy:
        yield World(cluster, proxy, tmp_path / "run")


def test_the_journal_has_what_the_cluster_has(world: World, tmp_path: Path):
    config = world.servers.write_kubeconfig(tmp_path / "config", ADMIN, url=world.proxy.proxy.url)
    for name in ("stays", "changes", "watched", "unseen", "between"):
        world.make(name)
    with muster_run(config, tmp_path):
        world.agrees("listed")
        world.found_gone(0)
        watching(world)
        unwatched(world)
        until("it watches", lambda: world.proxy.proxy.watches("watch=1") == len(OTHER_KINDS) + 4)
        last = int(world.servers.api.create(PODS, pod("last")).ok()["metadata"]["resourceVersion"])
        until("no watch is behind", lambda: world.consumed() >= last)
    # Killed; the next one resumes where it was.
    world.vanish("between")
    world.make("meanwhile")
    with muster_run(config, tmp_path) as muster:
        world.agrees("resumed")
        world.found_gone(0, len(OTHER_KINDS))
        muster.stop()
    replayed(world.run)


def watching(world: World) -> None:
    """Check that every change is recorded once, and nothing else."""
    world.touch("stays")
    world.make("comes")
    world.change("changes")
    world.vanish("watched")
    world.agrees("published")
    times = [one["name"] for event in world.published() for one in event.get("objects", ())]
    assert times.count("comes") == len(OTHER_KINDS)
    assert times.count("stays") == len(OTHER_KINDS) + 1, "a claim has a new version"
    changed = sum(bool(other.change) for other in OTHERS.values())
    assert times.count("changes") == len(OTHER_KINDS) + changed


def unwatched(world: World) -> None:
    """Objects deleted while no run watches are found by the list after a 410."""
    proxy = world.proxy
    away = proxy.add(Fault(kind=Kind.REFUSE, path=OTHER_WATCHES, times=100_000))
    # One that was just being renewed is refused, not cut.
    assert proxy.cut(OTHER_WATCHES)
    until("nobody watches", lambda: not proxy.proxy.watches(OTHER_WATCHES))
    world.vanish("unseen")
    world.make("later")
    expired = proxy.add(Fault(kind=Kind.REFUSE, path=PODS_WATCH, status=410))
    assert proxy.cut(PODS_WATCH) == 1
    world.agrees("listed again")
    assert expired.times == 0
    world.found_gone(0, len(OTHER_KINDS))
    proxy.over(away)


def replayed(run: Path) -> None:
    """Decide every record of the world journal again."""
    words = [sys.executable, "-m", "muster", "replay", str(run), "--from", "each"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
