"""The oracle for the tests that ask it."""

from collections.abc import Iterator

import pytest

from tests.parity.oracle.client import Oracle, require_oracle


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    require_oracle()
    with Oracle() as oracle:
        yield oracle
