"""Cluster addresses of the command line: HOST:PORT or unix:PATH of a simulated cluster."""

from muster.cli.errors import UsageFault
from shared.simulated.client import SimClusterClient
from shared.simulated.server import UNIX, split_address

NOWHERE = "127.0.0.1:0"
"""For processes whose services never call the cluster; a client connects only when it must."""


def parse_cluster(option: str, address: str) -> str:
    """Return the checked address. Raises UsageFault."""
    if address.startswith(UNIX) and len(address) > len(UNIX):
        return address
    try:
        _host, port = split_address(address)
    except ValueError as error:
        raise UsageFault(f"{option} {address}: must be HOST:PORT or unix:PATH") from error
    if port >= 1 << 16:
        raise UsageFault(f"{option} {address}: the port must be below 65536")
    return address


def open_cluster(address: str) -> SimClusterClient:
    """Return an unconnected client."""
    return SimClusterClient(address or NOWHERE)
