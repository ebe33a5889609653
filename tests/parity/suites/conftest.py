"""The oracle for the tests that ask it, and the server of its extenders."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.parity.oracle.client import Oracle, require_oracle
from tests.parity.oracle.extender_server import ExtenderServer


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    require_oracle()
    with Oracle() as oracle:
        yield oracle


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with closing(ExtenderServer()) as server:
        yield server.url
