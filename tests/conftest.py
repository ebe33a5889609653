"""Settings and fixtures for every kind of test; holds no builders and no domain words."""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from shared.worlds.settings import data_root
from tests.e2e import recovery_times
from tests.simulation import coverage_files
from tests.simulation.bug_sample import without_most_bugs
from tests.support import required_tools, worker_reports

# The same examples on every run and machine: a red test is red everywhere.
# HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=1_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_configure() -> None:
    worker_reports.prepare()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:], left_out = without_most_bugs(items)
    config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # Test workers end with a summary as well, which is not shown.
    if not hasattr(terminalreporter.config, "workerinput"):
        recovery_times.report(terminalreporter.write_line)
        coverage_files.report(terminalreporter.write_line)
        worker_reports.clear()


@pytest.fixture(autouse=True)
def _log_level_as_it_was() -> Iterator[None]:
    """Restore the log level: `muster simulate` silences the product's log lines for its whole
    process.
    """
    ours = logging.getLogger("muster")
    level = ours.level
    yield
    ours.setLevel(level)


@pytest.fixture(scope="session")
def require_tool() -> Callable[..., None]:
    """``require_tool("kafka", "make servers", found=...)``; see tests/support/required_tools.py."""
    return required_tools.require_tool


@pytest.fixture(scope="session")
def data(require_tool: Callable[..., None]) -> Path:
    """Return the folder of the real traces."""
    root = data_root()
    require_tool("traces", "export MUSTER_DATA=folder of the traces", found=root.is_dir())
    return root
