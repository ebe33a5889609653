"""How long journals were without an owner: told at the end of a test run, whoever measured it."""

import pytest

from tests import collected
from tests.e2e import recovery
from tests.e2e.recovery import Recovery


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setenv(collected.FOLDER, str(tmp_path))


def test_what_was_measured_is_told_by_hurt_and_service():
    killed = [Recovery("binding/0", "kill -9", 150 + n, n / 2, n / 1.0) for n in range(1, 4)]
    recovery.write("killed", killed)
    recovery.write("broken", [Recovery("ingest/0", "broker", 120, None, 2.5)])
    said: list[str] = []
    recovery.report(said.append)
    rows = [" ".join(line.split()) for line in said[3:]]
    assert rows == [
        "broker ingest 1 120 - 2.50 / 2.50 / 2.50",
        "kill -9 binding 3 151 0.50 / 1.00 / 1.50 1.00 / 2.00 / 3.00",
    ]


def test_nothing_is_told_when_nothing_was_measured():
    said: list[str] = []
    recovery.report(said.append)
    assert said == []
