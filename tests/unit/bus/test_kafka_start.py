"""How long the start of a Kafka client asks again, if brokers do not answer."""

import pytest

from shared.bus.kafka import topics
from shared.bus.kafka.settings import KafkaSettings
from shared.bus.kafka.topics import TopicDiffers, ensure_topics
from shared.ports.bus import BusUnavailable

THREE = "a:1,b:1,c:1"


@pytest.fixture
def attempts(monkeypatch) -> list[Exception]:
    """The errors of the attempts to come; after them one succeeds."""
    errors: list[Exception] = []

    async def ensure(*_arguments: object) -> None:
        if errors:
            raise errors.pop(0)

    monkeypatch.setattr(topics, "_ensure", ensure)
    monkeypatch.setattr(topics, "ASK_SOON_S", 0.001)
    return errors


async def test_one_of_several_brokers_may_be_asked_many_times_while_it_is_away(attempts):
    """It is chosen by chance, and named to clients until the others have missed it for a while."""
    attempts += [BusUnavailable(f"attempt {number}") for number in range(20)]
    await ensure_topics(KafkaSettings(bootstrap=THREE), {"ingest": 1})
    assert not attempts


@pytest.mark.parametrize(
    ("bootstrap", "timeout_ms", "error"),
    [
        pytest.param("a:1", 60_000, BusUnavailable("away"), id="a single broker"),
        pytest.param(THREE, 0, BusUnavailable("away"), id="the time is over"),
        pytest.param(THREE, 60_000, TopicDiffers("other settings"), id="a topic differs"),
    ],
)
async def test_an_attempt_is_the_last(attempts, bootstrap, timeout_ms, error):
    attempts += [error, BusUnavailable("asked again")]
    settings = KafkaSettings(bootstrap=bootstrap, connect_timeout_ms=timeout_ms)
    with pytest.raises(BusUnavailable) as raised:
        await ensure_topics(settings, {"ingest": 1})
    assert raised.value is error
