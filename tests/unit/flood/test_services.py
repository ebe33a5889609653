"""A service that ends, ends the flood, with its last words."""

import pytest

from muster.cli.errors import Fault
from muster.flood.kafka import Services


async def test_a_service_that_ends_is_named_with_its_last_line(tmp_path):
    services = Services(tmp_path)
    await services.start("nobody/0", ["--bus", "sqlite:x", "--cluster", "unix:y"])
    try:
        with pytest.raises(Fault, match=r"^nobody/0 ended: muster: .*nobody/0"):
            await services.until_serving()
    finally:
        await services.stop()
