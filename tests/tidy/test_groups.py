"""Tests that share servers share a worker: xdist's groups work with the locked versions.

Otherwise nothing fails at once: servers are started twice, and tests that build on each other are
separated.
"""

import subprocess
import sys
from pathlib import Path

GROUPED = """
import os
from pathlib import Path

import pytest


@pytest.mark.xdist_group("servers")
@pytest.mark.parametrize("number", range(8))
def test_where(number):
    Path(f"worker-{number}").write_text(os.environ["PYTEST_XDIST_WORKER"], encoding="ascii")
"""


def test_a_group_runs_on_one_worker(tmp_path: Path):
    (tmp_path / "test_where.py").write_text(GROUPED, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="ascii")
    options = ["-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=tmp_path, check=True, capture_output=True
    )
    workers = [path.read_text(encoding="ascii") for path in sorted(tmp_path.glob("worker-*"))]
    assert len(workers) == 8
    assert len(set(workers)) == 1
