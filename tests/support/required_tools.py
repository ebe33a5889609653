"""`require_tool`: a missing tool skips a test for people and fails it in CI.

This is the only place in the tests that may skip (tests/tidy checks it). It installs nothing.
"""

import os
import shutil
from collections.abc import Mapping

import pytest


def require_tool(
    name: str,
    command: str,
    *,
    found: bool | None = None,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Go on when the tool is there; otherwise skip, naming the command that provides it.

    `found` says whether the tool is there; by default it is looked for on PATH under `name`.
    With ``CI=true`` a missing tool fails the test, so that CI cannot be green by skipping.
    """
    if found is None:
        found = shutil.which(name) is not None
    if found:
        return
    if environ.get("CI", "").lower() == "true":
        pytest.fail(f"{name} missing and CI=true; run '{command}'", pytrace=False)
    pytest.skip(f"SKIPPED: {name} missing; run '{command}'")
