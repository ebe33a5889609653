"""HTTP extenders and a bind plugin under `muster serve` over Kafka on a real API server: all
processes do what one process does, though each asks only about its own part.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.live.checker.journals import SERVICES, of_kafka
from tests.live.support.case import Case
from tests.live.support.objects import PODS, Running, create_nodes, nodes_of, pod, until
from tests.live.test_extenders import CHOSEN, CLASSES, NODES, Binder, OneNode, Spares
from tests.support.etcd_history import EtcdHistory
from tests.support.kafka_brokers import running_broker
from tests.support.kafka_server import KafkaBroker
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
PLUGIN = '''
from muster.plugin import BindPlugin, BoundPod


class Notes(BindPlugin):
    """What is about to be bound, and what is, goes into a file."""

    reads = ("labels.app",)

    async def pre_bind(self, pod: BoundPod, node: str):
        self._write("wants", pod, node)
        return None

    async def post_bind(self, pod: BoundPod, node: str):
        self._write("has", pod, node)

    def _write(self, what: str, pod: BoundPod, node: str):
        with open("{notes}", "a") as file:
            file.write(f"{{what}} {{pod.name}} {{node}}\\n")
'''


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    yield from running_broker()


def test_processes_ask_extenders_and_plugins_as_one_does(
    cluster: KubeServers, broker: KafkaBroker, tmp_path: Path
):
    api = cluster.api
    create_nodes(api, NODES, cpu=64)
    for name, value in (("low", 2), ("urgent", 1_000)):
        api.create(CLASSES, {"metadata": {"name": name}, "value": value}).ok()
    notes = tmp_path / "notes"
    with ExitStack() as stack:
        filters, spares = stack.enter_context(closing(OneNode())), Spares()
        stack.enter_context(closing(spares))
        binder = stack.enter_context(closing(Binder(cluster)))
        case = Case(cluster, stack.enter_context(EtcdHistory(cluster.at.etcd_url)))
        words = _words(tmp_path, notes, filters.url, spares.url, binder.url)
        bus = ["--bus", f"kafka://{broker.bootstrap}/extended"]
        for service in SERVICES:
            asked = ["serve", service, *bus, "--kubeconfig", str(cluster.kubeconfig), *words]
            stack.enter_context(Running(asked, tmp_path / f"log-{service}"))

        names = [f"pod-{number}" for number in range(5)]
        for name in names:
            api.create(PODS, pod(name, cpu="12", priorityClassName="low")).ok()
        until("five are bound", lambda: all(nodes_of(api).values()))
        api.create(PODS, pod("urgent", cpu="16", priorityClassName="urgent")).ok()

        def leaving() -> list[str]:
            found = [one["metadata"] for one in api.items(PODS)]
            return [one["name"] for one in found if one.get("deletionTimestamp")]

        until("one of them goes", lambda: bool(leaving()))
        (victim,) = leaving()
        api.request("DELETE", f"{PODS}/{victim}?gracePeriodSeconds=0").ok()
        until("its place is taken", lambda: bool(nodes_of(api)["urgent"]))
        until("postBind is called", lambda: f"has urgent {CHOSEN}" in notes.read_text())
        journals = asyncio.run(of_kafka(broker.bootstrap, "extended"))
        problems = case.verdict(journals).problems
    assert set(nodes_of(api).values()) == {CHOSEN}
    assert sorted(binder.names) == [*names, "urgent"]
    assert {body["Pod"]["metadata"]["name"] for body in filters.bodies} >= {names[0], "urgent"}
    assert [sorted(body["NodeNameToVictims"]) for body in spares.bodies] == [[CHOSEN]]
    told = notes.read_text().splitlines()
    assert sorted(told) == sorted(
        f"{what} {name} {CHOSEN}" for what in ("wants", "has") for name in (*names, "urgent")
    )
    assert problems == [], "\n".join(problems)


def _words(folder: Path, notes: Path, filters: str, spares: str, binder: str) -> list[str]:
    """What all processes are given: the configuration, the plugin, where the run is."""
    verbs = (("filterVerb", "filter", filters), ("preemptVerb", "preempt", spares))
    extenders = [
        {"urlPrefix": url, verb: name, "httpTimeout": "60s"}
        for verb, name, url in (*verbs, ("bindVerb", "bind", binder))
    ]
    plugins = {"multiPoint": {"enabled": [{"name": "Notes"}]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "muster", "plugins": plugins}],
        "extenders": extenders,
    }
    paths = folder / "config.json", folder / "notes.py"
    paths[0].write_text(json.dumps(config), encoding="utf-8")
    paths[1].write_text(PLUGIN.format(notes=notes), encoding="utf-8")
    words = ["--config", str(paths[0]), "--plugin", str(paths[1])]
    return [*words, "--run-dir", str(folder / "run")]
