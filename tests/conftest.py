"""Settings and fixtures for every kind of test; holds no builders and no domain words."""

import os
from collections.abc import Callable

import pytest
from hypothesis import settings

from tests import tools

# The same examples on every run and machine: a red test is red for everybody.
# HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=1_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session")
def require_tool() -> Callable[..., None]:
    """``require_tool("kafka", "make servers", found=...)``; see tests/tools.py."""
    return tools.require_tool
