"""A pod spec compiled for one node table: amounts by column, ready for Filter, Score and charges.

Nothing here depends on which nodes there are; what does is in static.py.
"""

import numpy as np

from shared.framework.layout import (
    AMOUNT_MAX,
    CPU_INDEX,
    DEVICE_MILLI,
    DEVICES_MAX,
    FREE,
    MEMORY_INDEX,
    PERCENT,
    PODS_INDEX,
    ROOM,
    SCORED_MAX,
    USED,
)
from shared.framework.profile import COLUMN_FILTERS, FIT
from shared.framework.table import NodeTable
from shared.model.objects import CPU, MEMORY, PODS, PodSpec


def _amount(value: int, most: float = AMOUNT_MAX) -> float:
    assert value >= 0, f"a request must not be negative: {value}"
    return min(float(value), most)


class Signature:
    """One signature as the kernel sees it.

    `checks` are (column, least value) pairs that a node's columns must reach, `score_delta` and
    `filter_delta` (column, amount) pairs that one pod adds to a node's columns.
    """

    def __init__(self, table: NodeTable, sig_id: int, spec: PodSpec) -> None:
        self.sig_id = sig_id
        self.spec = spec
        self.ports = spec.host_ports
        self.cpu = _amount(spec.request(CPU))
        self.memory = _amount(spec.request(MEMORY))
        # What a pod takes of ROOM.
        self.room_cpu = PERCENT * _amount(spec.nonzero_cpu_milli, SCORED_MAX)
        self.room_memory = PERCENT * _amount(spec.nonzero_memory_bytes, SCORED_MAX)
        # Column vectors, shape (2, 1): cpu over memory.
        self.requests = np.array([[self.cpu], [self.memory]])
        self.room = np.array([[self.room_cpu], [self.room_memory]])
        self.best_effort = self.cpu == 0.0 and self.memory == 0.0
        self.amounts = self._amounts(table)
        self.gpu_milli, self.gpu_count = self._gpu()
        self.whole_devices = self.gpu_milli >= DEVICE_MILLI  # empty devices, not a share of one
        self.amount_checks = FIT.checks(table, spec)
        self.checks = [
            check
            for plugin in COLUMN_FILTERS
            for check in (self.amount_checks if plugin is FIT else plugin.checks(table, spec))
        ]
        # Whether n pods change a node by n times one pod: no devices to choose, no ports.
        self.linear = self.gpu_count == 0 and not self.ports
        self.asked = False  # whether a kernel met it before; a hint for its cache, not state
        # The same for arrays: the span of columns with a check, and their least values, shape
        # (columns, 1). One comparison over the span is cheaper than one for each check.
        columns = [column for column, _ in self.checks]
        self.checked = slice(min(columns), max(columns) + 1)
        self.floors = np.full((max(columns) + 1 - min(columns), 1), -np.inf)
        for column, amount in self.checks:
            self.floors[column - min(columns), 0] = amount
        self.filter_delta = [(FREE + r, -amount) for r, amount in self.amounts]
        self.score_delta = [
            (ROOM, -self.room_cpu),
            (ROOM + 1, -self.room_memory),
            (USED, self.cpu),
            (USED + 1, self.memory),
        ]
        self.delta = [*self.filter_delta, *self.score_delta]

    def _amounts(self, table: NodeTable) -> list[tuple[int, float]]:
        """(resource index, amount) of everything a pod takes: its requests and one pod slot."""
        amounts = [(CPU_INDEX, self.cpu), (MEMORY_INDEX, self.memory), (PODS_INDEX, 1.0)]
        for name, value in self.spec.requests:
            if name not in (CPU, MEMORY, PODS):
                amounts.append((table.resource(name), _amount(value)))
        return [(r, amount) for r, amount in amounts if amount > 0.0]

    def _gpu(self) -> tuple[int, int]:
        gpu = self.spec.gpu
        if gpu is None:
            return 0, 0
        assert 1 <= gpu.count <= DEVICES_MAX, f"{gpu}"
        assert 1 <= gpu.milli <= DEVICE_MILLI, f"{gpu}"
        assert gpu.count == 1 or gpu.milli == DEVICE_MILLI, f"several shares in {gpu}"
        return gpu.milli, gpu.count
