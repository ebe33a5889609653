"""`muster flood` over a real broker, with a process for each service."""

from collections.abc import Iterator

import pytest

from tests.e2e.console import ROOT, muster
from tests.support.kafka_server import INSTALL_COMMAND, KafkaBroker, kafka_available, new_broker
from tests.support.required_tools import require_tool

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.xdist_group("kafka-processes")]


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    require_tool("kafka", INSTALL_COMMAND, found=kafka_available())
    found = new_broker()
    found.start()
    yield found
    found.stop()


def test_gangs_and_failing_nodes_over_kafka(broker: KafkaBroker, tmp_path):
    workload, target = ROOT / "examples" / "floods" / "training.yaml", f"kafka://{broker.bootstrap}"
    run = tmp_path / "run"
    ran = muster("flood", workload, "--target", target, "-p", "2", "--run-dir", run, "-o", "json")
    assert ran.code == 0, ran.err
    found = ran.json()
    assert (found["target"], found["bound"], found["measured_bound"]) == (target, 360, 160)
    assert found["batches"]["count"] > 0
    assert sum(map(sum, found["series"]["shard_pods"])) >= 360
    assert found["processor_us_per_pod"] > 0
