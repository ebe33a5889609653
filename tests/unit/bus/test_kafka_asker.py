"""Who asks Kafka for the bounds of a journal: a client that got no answer is not asked again."""

from typing import Any

import pytest
from aiokafka.errors import KafkaTimeoutError

from shared.bus.kafka import bus
from shared.bus.kafka.bus import KafkaBus
from shared.bus.kafka.settings import KafkaSettings
from shared.ports.bus import BusUnavailable


class Client:
    """A consumer that asks the broker that led when it connected; `answers`: that one answers."""

    def __init__(self, answers: bool) -> None:
        self.answers, self.is_stopped = answers, False

    async def start(self) -> None: ...

    async def beginning_offsets(self, partitions: list[Any]) -> dict[Any, int]:
        if not self.answers:
            raise KafkaTimeoutError("Failed to get offsets by times in 4000 ms")
        return dict.fromkeys(partitions, 3)

    async def end_offsets(self, partitions: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(partitions, 7)


async def stop(client: Client) -> None:
    client.is_stopped = True


async def test_after_no_answer_another_client_asks_the_new_leader(monkeypatch):
    """The library reads the metadata again after five minutes, or after an answer that asks to."""
    clients = [Client(answers=False), Client(answers=True)]
    left = iter(clients)
    monkeypatch.setattr(bus, "AIOKafkaConsumer", lambda **_arguments: next(left))
    monkeypatch.setattr(bus, "stop_consumer", stop)
    asked = KafkaBus(KafkaSettings(bootstrap="a:1"), {"ingest": 1})
    with pytest.raises(BusUnavailable):
        await asked.bounds("ingest/0")
    assert await asked.bounds("ingest/0") == (3, 7)
    assert await asked.bounds("ingest/0") == (3, 7)
    await asked.close()
    assert [client.is_stopped for client in clients] == [True, True]
