"""The dashboards and alerts of deploy/ beside a real Prometheus that scrapes a mesh at work."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadtest.processes import COMMAND, Child
from muster.metrics.collector import registry_with
from muster.metrics.follow import Followed
from tests.support.prometheus_server import Prometheus
from tests.support.server_process import free_ports
from tests.tidy.source import ROOT

DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
WORLD = ROOT / "examples" / "manifests"
OWNERS = (("ingest", "queueing", "permit"), ("placement", "preemption", "binding"))
"""The services of two processes."""
METRIC = re.compile(r"\b(?:muster|scheduler)_\w+")
SUFFIX = re.compile(r"_(?:total|bucket|sum|count)$")
BOUND_MIN = 1_000
"""Pods that are bound at once in the example world."""
WITHIN_S = 40.0
POLL_S = 0.2


def panels(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["panels"]
    return found


QUERIES = [
    pytest.param(
        target["expr"].replace("$__rate_interval", "1m"),
        id=f"{path.stem}: {panel['title']} {target['refId']}",
    )
    for path in DASHBOARDS
    for panel in panels(path)
    for target in panel["targets"]
]


RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition. Raises TimeoutError."""
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(POLL_S)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Yield a Prometheus that has scraped the two processes of a mesh since before the first pod.
    The last pod of the example world needs a preemption.
    """
    folder, ports = tmp_path_factory.mktemp("mesh"), free_ports(len(OWNERS))
    address = f"unix:{folder / 'cluster.sock'}"
    cluster = Child(
        folder / "cluster.log", ["cluster", str(WORLD), "--listen", address], COMMAND, {}
    )
    with ExitStack() as stack:
        server = Prometheus([f"127.0.0.1:{port}" for port in ports], [ALERTS])
        stack.enter_context(server)
        stack.callback(cluster.kill)
        cluster.start()
        cluster.until_said("listening on")
        for services, port in reversed(list(zip(OWNERS, ports, strict=True))):
            words = ["serve", *services, "--bus", f"sqlite:{folder / 'journals.db'}"]
            words += ["--cluster", address, "--run-dir", str(folder / "run")]
            words += ["--owner", services[0], "--metrics-port", str(port)]
            words += ["--snapshot-seconds", "1"]
            child = Child(folder / f"{services[0]}.log", words, COMMAND, {})
            stack.callback(child.kill)
            child.start()
            child.until_said("serving")
        until(lambda: (server.value("sum(scheduler_preemption_victims_sum)") or 0) > 0)
        until(lambda: (server.value("sum(muster_snapshots_total)") or 0) > 0)
        yield server


pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prometheus")]


@pytest.mark.parametrize("query", QUERIES)
def test_each_query_of_a_dashboard_has_data(prometheus: Prometheus, query: str):
    until(lambda: bool(prometheus.query(query)))


def test_each_alert_is_evaluated_without_an_error(prometheus: Prometheus):
    names = [rule["alert"] for rule in RULES]
    until(lambda: all(rule["health"] != "unknown" for rule in rules(prometheus)))
    assert [rule["name"] for rule in rules(prometheus)] == names
    assert {rule["name"]: rule.get("lastError", "") for rule in rules(prometheus)} == dict.fromkeys(
        names, ""
    )


def rules(prometheus: Prometheus) -> list[dict[str, Any]]:
    return [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]


def test_a_mesh_without_faults_fires_no_alert(prometheus: Prometheus):
    firing = [rule["name"] for rule in rules(prometheus) if rule["state"] == "firing"]
    assert firing == []


def test_sums_over_both_processes_count_each_pod_once(prometheus: Prometheus):
    bound = prometheus.value('sum(scheduler_schedule_attempts_total{result="scheduled"})')
    assert bound is not None
    assert bound >= BOUND_MIN
    assert bound == prometheus.value("sum(scheduler_pod_scheduling_attempts_count)")
    assert prometheus.value("count(count by (queue) (scheduler_pending_pods))") == 4
    until(lambda: prometheus.value("sum(muster_reader_lag_records)") == 0)


def test_queries_and_alerts_name_metrics_that_muster_has():
    known = {one.name for one in registry_with(Followed(), list).collect()}
    asked = [query.values[0] for query in QUERIES] + [rule["expr"] for rule in RULES]
    named = {name for text in asked for name in METRIC.findall(str(text))}
    assert {name for name in named if SUFFIX.sub("", name) not in known} == set()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_has_panels_beside_each_other_that_use_its_data_source(path: Path):
    board = json.loads(path.read_text(encoding="utf-8"))
    (variable,) = board["templating"]["list"]
    assert (variable["name"], variable["query"]) == ("datasource", "prometheus")
    numbers = [panel["id"] for panel in board["panels"]]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(numbers)) == len(set(places)) == len(board["panels"])
    used = {
        one["datasource"]["uid"] for panel in board["panels"] for one in (panel, *panel["targets"])
    }
    assert used == {"${datasource}"}
