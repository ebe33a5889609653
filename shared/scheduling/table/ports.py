"""Host ports in use on the nodes of one table; the owner knows which pod holds them."""

from collections.abc import Mapping

from shared.model.ids import NodeId
from shared.model.objects import HostPort
from shared.scheduling.table.multiset import add

ANY_IP = "0.0.0.0"


def clashes(wanted: HostPort, used: Mapping[HostPort, int]) -> bool:
    """Return whether a port clashes with those in use; 0.0.0.0 clashes with every ip."""
    for port in used:
        same = port.port == wanted.port and port.protocol == wanted.protocol
        if same and (ANY_IP in (port.ip, wanted.ip) or port.ip == wanted.ip):
            return True
    return False


class PortLedger:
    """Ports by node id, counted, as facts may give one port twice; and for each port number the
    nodes that use it on some ip.
    """

    def __init__(self) -> None:
        self._of_node: dict[NodeId, dict[HostPort, int]] = {}
        self._users: dict[tuple[str, int], dict[NodeId, int]] = {}

    def used(self, node_id: NodeId) -> Mapping[HostPort, int]:
        """Return the ports in use on one node, with how often each is held."""
        return self._of_node.get(node_id, {})

    def charge(self, node_id: NodeId, ports: tuple[HostPort, ...], sign: int) -> None:
        """Charge (+1) or release (-1) one pod's ports."""
        used = self._of_node.setdefault(node_id, {})
        add(used, ports, sign)
        if not used:
            del self._of_node[node_id]
        for port in ports:
            users = self._users.setdefault((port.protocol, port.port), {})
            count = users.get(node_id, 0) + sign
            assert count >= 0, f"port {port} of node {node_id} was given back twice"
            if count:
                users[node_id] = count
            else:
                del users[node_id]

    def refusing(self, ports: tuple[HostPort, ...]) -> list[NodeId]:
        """Return the ids of the nodes on which one of these ports clashes, ascending, once each."""
        refusing: set[NodeId] = set()
        for port in ports:
            for node_id in self._users.get((port.protocol, port.port), {}):
                if clashes(port, self._of_node[node_id]):
                    refusing.add(node_id)
        return sorted(refusing)

    def forget(self, node_id: NodeId) -> None:
        """Forget a node and its charges."""
        for port, count in self._of_node.pop(node_id, {}).items():
            users = self._users[(port.protocol, port.port)]
            users[node_id] -= count
            if not users[node_id]:
                del users[node_id]

    def copy(self) -> "PortLedger":
        """Return an independent copy."""
        twin = PortLedger()
        twin._of_node = {node_id: dict(used) for node_id, used in self._of_node.items()}
        twin._users = {key: dict(users) for key, users in self._users.items()}
        return twin
