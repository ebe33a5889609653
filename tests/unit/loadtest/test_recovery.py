"""Times of journals without an owner: printed at the end of a test run, whichever test measured
them.
"""

import pytest

from tests.e2e import recovery_times
from tests.e2e.recovery_times import Recovery
from tests.support import worker_reports


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setenv(worker_reports.FOLDER, str(tmp_path))


def test_measured_recoveries_are_listed_by_fault_and_service():
    killed = [Recovery("binding/0", "kill -9", 150 + n, n / 2, n / 1.0) for n in range(1, 4)]
    recovery_times.write("killed", killed)
    recovery_times.write("broken", [Recovery("ingest/0", "broker", 120, None, 2.5)])
    said: list[str] = []
    recovery_times.report(said.append)
    rows = [" ".join(line.split()) for line in said[3:]]
    assert rows == [
        "broker ingest 1 120 - 2.50 / 2.50 / 2.50",
        "kill -9 binding 3 151 0.50 / 1.00 / 1.50 1.00 / 2.00 / 3.00",
    ]


def test_nothing_is_printed_when_nothing_was_measured():
    said: list[str] = []
    recovery_times.report(said.append)
    assert said == []
