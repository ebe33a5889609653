"""NodePorts: a host port is used once per node, protocol and ip."""

import numpy as np

from shared.model.objects import HostPort
from shared.scheduling.table.layout import Mask
from shared.scheduling.table.table import NodeTable


class NodePorts:
    """Dynamic filter; removing the pod that holds the port helps (Unschedulable).

    For one node the rule is in one_node.py, with ports.clashes in common.
    """

    name = "NodePorts"
    message = "node(s) didn't have free ports for the requested pod ports"

    def refuses(self, table: NodeTable, ports: tuple[HostPort, ...]) -> Mask | None:
        """Return the nodes where one of the ports is in use."""
        if not ports:
            return None
        refused = np.zeros(table.size, np.bool_)
        refused[table.rows_of(table.ports.refusing(ports))] = True
        return refused
