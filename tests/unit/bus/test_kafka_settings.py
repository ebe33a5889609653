"""Kafka's settings: TLS is verified, secrets stay in their files, errors name the field."""

import asyncio
import ssl
from pathlib import Path

import msgspec
import pytest

from shared.bus.kafka.settings import KafkaSettings
from shared.ports.bus import BusUnavailable


def sasl(tmp_path: Path, **more: object) -> KafkaSettings:
    secret = tmp_path / "password"
    secret.write_text("open sesame\n")
    return KafkaSettings(
        bootstrap="kafka:9093",
        security_protocol="SASL_SSL",
        sasl_username="muster",
        sasl_password_file=str(secret),
        **more,
    )


def test_plain_needs_nothing_else():
    arguments = KafkaSettings(bootstrap="kafka:9092").client_arguments()
    assert arguments["bootstrap_servers"] == "kafka:9092"
    assert "ssl_context" not in arguments


def test_tls_is_verified_unless_switched_off(tmp_path: Path):
    context = sasl(tmp_path).client_arguments()["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    context = sasl(tmp_path, ssl_verify=False).client_arguments()["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


def test_the_password_is_read_from_its_file_and_never_shown(tmp_path: Path):
    settings = sasl(tmp_path)
    assert settings.client_arguments()["sasl_plain_password"] == "open sesame"
    shown = repr(settings) + str(msgspec.to_builtins(settings))
    shown += str(settings.unreachable(OSError("refused")))
    assert "sesame" not in shown


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sasl_password_file": "absent"}, "sasl_password_file absent: No such file"),
        ({"sasl_username": None}, "SASL_SSL needs sasl_username and sasl_password_file"),
        ({"ssl_ca_file": "absent"}, "ssl_ca_file absent"),
        ({"ssl_cert_file": "absent"}, "ssl_cert_file absent"),
        (
            {"ssl_cert_file": "absent", "ssl_key_password_file": "gone"},
            "ssl_key_password_file gone: No such file",
        ),
    ],
)
def test_missing_settings_are_named(tmp_path: Path, fields: dict[str, object], message: str):
    settings = msgspec.structs.replace(sasl(tmp_path), **fields)
    with pytest.raises(BusUnavailable, match=message):
        settings.client_arguments()


def test_an_unknown_field_or_value_is_refused():
    for text in (
        '{"bootstrap":"a:1","sasl_password":"x"}',
        '{"bootstrap":"a:1","security_protocol":"TLS"}',
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=KafkaSettings)


@pytest.mark.parametrize("turns", range(6))
async def test_a_cancelled_wait_ends_while_an_answer_arrives(turns: int):
    """Between an answer and its reader's turn there is room for a cancellation."""
    answer = asyncio.get_running_loop().create_future()

    async def asking() -> int:
        result: int = await answer
        return result

    reading = asyncio.create_task(KafkaSettings(bootstrap="localhost:1").reach(asking()))
    for _ in range(5):
        await asyncio.sleep(0)
    answer.set_result(1)
    for _ in range(turns):
        await asyncio.sleep(0)
    was_told = reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert reading.cancelled() is was_told


async def test_an_answer_that_does_not_come_is_named():
    settings = KafkaSettings(bootstrap="localhost:1", connect_timeout_ms=10)
    with pytest.raises(BusUnavailable, match=r"localhost:1 .*: no answer in time"):
        await settings.reach(asyncio.Event().wait())

    async def fails() -> None:
        raise OSError("refused")

    with pytest.raises(BusUnavailable, match="refused"):
        await settings.reach(fails())
