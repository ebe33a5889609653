"""`muster run WORLD --metrics-port`: metrics while a flood is scheduled."""

import time
import urllib.request
from contextlib import suppress
from urllib.error import URLError

from prometheus_client.parser import text_string_to_metric_families

from loadtest.processes import COMMAND, Child
from tests.support.server_process import free_ports

POLL_S = 0.05
WORLD = "flood:pods=2000,rate=500,nodes=60"


def test_a_run_serves_metrics_until_it_ends(tmp_path):
    (port,) = free_ports(1)
    words = ["run", WORLD, "--run-dir", str(tmp_path / "run"), "--metrics-port", str(port)]
    run = Child(tmp_path / "log", words, COMMAND, {})
    run.start()
    bound: list[float] = []
    while run.runs:
        with suppress(URLError, ConnectionError):
            bound.append(scheduled(port))
        time.sleep(POLL_S)
    assert run.code == 0, run.said()
    assert bound == sorted(bound)
    assert bound[0] < bound[-1] <= 2_000


def scheduled(port: int) -> float:
    """Return how many attempts ended with a bind so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "scheduler_schedule_attempts_total"
    )
