"""A service that ends, ends the flood, with its last words."""

import pytest

from muster.cli.errors import Fault
from muster.flood.targets.kafka import Services


async def test_a_service_that_ends_is_named_with_its_last_line(tmp_path):
    services = Services(tmp_path)
    await services.start("unknown/0", ["--bus", "sqlite:x", "--cluster", "unix:y"])
    try:
        with pytest.raises(Fault, match=r"^unknown/0 ended: muster: .*unknown/0"):
            await services.until_serving()
    finally:
        await services.stop()
