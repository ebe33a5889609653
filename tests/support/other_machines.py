"""Other machines to replay on: other hash seeds, and a processor without the features that numpy
could use.

numpy accepts only names of features that it dispatches on, and those change with its version; it
ignores others with a warning that no test shows. So the names are read from numpy, and their effect
is checked as well.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Mapping

_LEFT = """
import importlib
umath = importlib.import_module("numpy._core._multiarray_umath")
print(*(name for name in umath.__cpu_dispatch__ if umath.__cpu_features__.get(name)))
"""
_umath = importlib.import_module("numpy._core._multiarray_umath")

DISPATCHED = tuple(name for name in _umath.__cpu_dispatch__ if _umath.__cpu_features__.get(name))
"""The processor features by which numpy chooses its loops on this machine."""
PLAIN_CPU = {"NPY_DISABLE_CPU_FEATURES": " ".join(DISPATCHED)}
OTHER_MACHINES = (
    {"PYTHONHASHSEED": "1", **PLAIN_CPU},
    {"PYTHONHASHSEED": "2", **PLAIN_CPU},
)
"""Environments in which a replay must give the same result, bit by bit."""


def features_left(environ: Mapping[str, str]) -> list[str]:
    """Return the dispatched features that a child process with this environment still uses."""
    done = subprocess.run(
        [sys.executable, "-c", _LEFT],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()
