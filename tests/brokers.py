"""The real broker that the tests of a module or a session share."""

from collections.abc import Iterator

from shared.testing.kafka_server import INSTALL_COMMAND, KafkaBroker, kafka_available, new_broker
from tests.tools import require_tool


def running_broker() -> Iterator[KafkaBroker]:
    """For a fixture: one that runs; tests that kill it start it again."""
    require_tool("kafka", INSTALL_COMMAND, found=kafka_available())
    server = new_broker()
    try:
        server.start()
        yield server
    finally:
        server.stop()
