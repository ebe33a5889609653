"""Settings and bus addresses: accepted ones, and the message for each unusable one."""

import pytest

from muster.cli.addresses.bus import parse_bus, parse_metrics
from muster.cli.errors import UsageFault
from muster.cli.options.services import mesh_config, parse_settings, sim_config


def test_settings_become_options_by_service():
    found = parse_settings(
        ["queueing.max_batch=1", "placement.batch=false", "cluster.latency_ms=5"]
    )
    assert mesh_config(found) == {"queueing": {"max_batch": 1}, "placement": {"batch": False}}
    assert sim_config(found, 7).latency_ms == 5
    assert sim_config(found, 7).seed == 7


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("queueing", "--set queueing: must be SERVICE.OPTION=VALUE"),
        ("queueing=1", "must be SERVICE.OPTION=VALUE"),
        ("cooking.heat=1", "'cooking' is not one of ingest, queueing"),
        ("ingest.nothing=1", "--set ingest.nothing: unknown option"),
        ("queueing.max_bach=1", "unknown option; did you mean max_batch?"),
        ("permit.nothing=1", "unknown option; the options are "),
        ("queueing.nothing=1", "--set queueing.nothing: unknown option"),
        ("placement.nothing=1", "--set placement.nothing: unknown option"),
        ("permit.nothing=1", "--set permit.nothing: unknown option"),
        ("permit.plans_max=0", "--set permit.plans_max: Expected `int` >= 1"),
        ("preemption.nothing=1", "--set preemption.nothing: unknown option"),
        ("binding.nothing=1", "--set binding.nothing: unknown option"),
        ("queueing.max_batch=many", "--set queueing.max_batch: Expected `int`, got `str`"),
        ("queueing.max_batch=-1", "queueing.max_batch"),
        ("cluster.latency_ms=-1", "--set cluster.latency_ms: Expected `int` >= 0"),
        ("cluster.weather=1", "weather"),
        ("cluster.weather=" + "[" * 101, "--set cluster.weather: line 1: nests deeper than 100"),
    ],
)
def test_a_setting_that_cannot_be_used_gets_one_line(setting, line):
    with pytest.raises(UsageFault) as raised:
        parse_settings([setting])
    assert line in str(raised.value)


def test_bus_addresses_are_read():
    assert str(parse_bus("sqlite:a/b.db").sqlite) == "a/b.db"
    kafka = parse_bus("kafka://h:9092/p?append_timeout_ms=5").kafka
    assert kafka is not None
    assert (kafka.bootstrap, kafka.prefix, kafka.append_timeout_ms) == ("h:9092", "p", 5)
    assert kafka.replication_factor == 1
    three = parse_bus("kafka://a:1,b:2,c:3").kafka
    assert three is not None
    assert (three.prefix, three.replication_factor) == ("muster", 3)


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("redis://h:1", "must be kafka://HOST:PORT"),
        ("sqlite:", "must be kafka://HOST:PORT"),
        ("kafka:h:1", "must be kafka://HOST:PORT"),
        ("kafka://h", "every broker must be HOST:PORT"),
        ("kafka://h:99999", "every broker must be HOST:PORT"),
        ("kafka://h:1?colour=red", "colour"),
        ("kafka://h:1?append_timeout_ms=soon", "append_timeout_ms"),
    ],
)
def test_an_address_that_cannot_be_used_gets_one_line(address, line):
    with pytest.raises(UsageFault) as raised:
        parse_bus(address)
    assert line in str(raised.value)


def test_metrics_are_served_on_this_machine_alone_unless_a_host_is_named():
    assert parse_metrics("0") is None
    assert parse_metrics("9090") == ("127.0.0.1", 9090)
    assert parse_metrics("0.0.0.0:9090") == ("0.0.0.0", 9090)
    assert parse_metrics("[::]:9090") == ("::", 9090)


@pytest.mark.parametrize("text", ["", "x", "-1", "65536", ":9090", "0.0.0.0:", "0.0.0.0:0", "h:x"])
def test_an_address_for_metrics_that_cannot_be_used_gets_one_line(text):
    with pytest.raises(UsageFault, match=r"--metrics-port .*: must be PORT \(on .*\) or HOST"):
        parse_metrics(text)
