"""A pod spec compiled for one node table: amounts by column, ready for Filter, Score and charges.

Nothing here depends on the present nodes; score_classes.py has what does.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from shared.model.ids import SignatureId
from shared.model.objects import CPU, GPU, MEMORY, PODS, GpuRequest, PodSpec
from shared.scheduling.api.custom.reserve import NEVER, Reserved
from shared.scheduling.profile import DEFAULT, GPU_DEVICES, Plugins
from shared.scheduling.table.layout import (
    AMOUNT_MAX,
    DEVICE_MILLI,
    DEVICES_MAX,
    F64,
    FREE,
    PERCENT,
    PODS_INDEX,
    ROOM,
    SCORED_MAX,
    USED,
)
from shared.scheduling.table.other_shards import NO_OTHERS
from shared.scheduling.table.oversize_sums import LARGE
from shared.scheduling.table.table import NodeTable
from shared.scheduling.volumes.volume_uses import Use

if TYPE_CHECKING:
    from shared.scheduling.cycle.inter_pod_rules import Rules

ONE_SLOT = (FREE + PODS_INDEX, -1.0)


def _amount(value: int, most: float = AMOUNT_MAX) -> float:
    assert value >= 0, f"a request must not be negative: {value}"
    return min(float(value), most)


class Signature:
    """One signature as the kernel sees it.

    `checks` are (column, least value) pairs that a node's columns must reach; `score_delta` and
    `filter_delta` are (column, amount) pairs that one pod adds to a node's columns, `delta` is
    both.
    """

    __slots__ = (
        *(
            "alike",
            "amount_checks",
            "asked",
            "best_effort",
            "checks",
            "cpu",
            "delta",
            "filter_delta",
        ),
        *("gpu_count", "gpu_milli", "linear", "memory", "ports", "requests", "room", "room_cpu"),
        *("room_memory", "score_delta", "sig_id", "spec", "taken_cpu", "taken_memory"),
        *(
            "checked_ports",
            "constraints",
            "is_concerned",
            "more_scored",
            "plugins",
            "reserved",
            "scores",
            "uses",
            "whole_devices",
        ),
        *("_floors", "counted", "is_large", "others", "rules"),
    )

    def __init__(
        self, table: NodeTable, sig_id: SignatureId, spec: PodSpec, plugins: Plugins = DEFAULT
    ) -> None:
        """Compile a spec. `plugins` are those of the pod's profile."""
        self.sig_id = sig_id
        self.spec = spec
        self.plugins = plugins
        self.constraints = plugins.profile.constraints(spec)
        # Inter-pod rules may select it, or it has some itself.
        self.is_concerned = bool(spec.namespace or spec.volumes or spec.claims) or spec.has_rules
        self.uses: tuple[Use, ...] = tuple((spec.namespace, one) for one in spec.volumes)
        self.ports = spec.host_ports
        self.checked_ports = spec.host_ports if plugins.checks_ports else ()
        self.reserved: tuple[Reserved, ...] = ()  # by users' plugins
        if plugins.reserving:  # most profiles have none, and there are many signatures
            handed = ((one, FREE + table.resource(one.resource)) for one in plugins.reserving)
            self.reserved = tuple(one.of(spec, column) for one, column in handed)
        self.is_large = spec.nonzero_memory_bytes >= LARGE or spec.nonzero_cpu_milli >= LARGE
        self.filter_delta = self._requests(table)
        # What a pod takes of ROOM once it is placed, and while it is scored.
        taken_cpu = PERCENT * _amount(spec.nonzero_cpu_milli, SCORED_MAX)
        taken_memory = PERCENT * _amount(spec.nonzero_memory_bytes, SCORED_MAX)
        self.taken_cpu = self.room_cpu = taken_cpu
        self.taken_memory = self.room_memory = taken_memory
        if spec.asked is not None:
            asked_cpu_milli, asked_memory_bytes = spec.asked
            self.room_cpu = PERCENT * _amount(asked_cpu_milli, SCORED_MAX)
            self.room_memory = PERCENT * _amount(asked_memory_bytes, SCORED_MAX)
        cpu, memory = self.cpu, self.memory
        # Column vectors, shape (2, 1): cpu over memory.
        columns = [cpu, memory, self.room_cpu, self.room_memory]
        self.requests, self.room = np.array(columns).reshape(2, 2, 1)
        self.best_effort = cpu == 0.0 and memory == 0.0
        self.gpu_milli, self.gpu_count = (0, 0) if spec.gpu is None else _gpu(spec.gpu)
        self.whole_devices = self.gpu_milli >= DEVICE_MILLI  # whole devices, not a share of one
        # Tuples of numbers, not lists: the garbage collector need not scan them repeatedly.
        self.amount_checks = tuple(plugins.fit.checks(table, spec))
        if self.reserved:
            more = ((one.column, one.amount) for one in self.reserved if one.amount)
            self.amount_checks = (*self.amount_checks, *more)
        self.checks = (*self.amount_checks, *GPU_DEVICES.checks(table, spec))
        # Whether n pods change a node by n times one pod: no devices to choose, no ports.
        self.more_scored = tuple(self._more_scored(table)) if table.scored else ()
        self.linear = self.gpu_count == 0 and not self.checked_ports and not self.more_scored
        self.asked = False  # whether a kernel used it before; a hint for its cache, not state
        self.alike: Signature | None = None  # whose row a kernel uses for it
        self._floors: tuple[slice, F64] | None = None
        # Inter-pod rules: the counters that a pod moves (kept by the counters' owner), and the
        # rules that apply to it (kept by inter_pod_rules.rules_of).
        self.counted: tuple[tuple[int, int], ...] = ()
        self.rules: tuple[tuple[int, int, int, int, int], Rules | None] | None = None
        self.others = NO_OTHERS  # what they count on other shards, as last known
        self.score_delta = (
            (ROOM, -taken_cpu),
            (ROOM + 1, -taken_memory),
            (USED, cpu),
            (USED + 1, memory),
            *self.more_scored,
        )
        self.delta = (*self.filter_delta, *self.score_delta)
        self.scores = None if plugins.is_default_locally else plugins.local_scores(table, self)

    def _more_scored(self, table: NodeTable) -> Iterator[tuple[int, float]]:
        """Yield the pod's amounts of the resources besides cpu and memory that a profile scores."""
        for name, (_, used) in table.scored.items():
            amount = self.scored_amount(name)
            if amount:
                yield used, amount

    def scored_amount(self, resource: str) -> float:
        """Return the pod's request as scores count it: devices in milli."""
        if resource == GPU:
            return float(self.gpu_milli * self.gpu_count)
        return _amount(self.spec.request(resource), SCORED_MAX)

    def asked_amount(self, resource: str) -> float:
        """Return the amount that NodeResourcesFit's score counts while the pod itself is scored."""
        for name, amount in self.spec.asked_pages:
            if name == resource:
                return _amount(amount, SCORED_MAX)
        return self.scored_amount(resource)

    def _requests(self, table: NodeTable) -> tuple[tuple[int, float], ...]:
        """Return what a pod takes of FREE: its requests, which are stored on the way, and one pod
        slot.
        """
        self.cpu = self.memory = 0.0
        taken = [ONE_SLOT]
        for name, value in self.spec.requests:
            amount = _amount(value)
            if amount >= LARGE:
                self.is_large = True
            if name == CPU:
                self.cpu = amount
            elif name == MEMORY:
                self.memory = amount
            if amount and name != PODS:
                taken.append((FREE + table.resource(name), -amount))
        if not self.reserved:
            return tuple(taken)
        handed = ((one.column, -one.amount) for one in self.reserved if 0.0 < one.amount < NEVER)
        return (*taken, *handed)

    @property
    def floors(self) -> tuple[slice, F64]:
        """Return `checks` for arrays: the span of checked columns and their least values, shape
        (columns, 1). One comparison over the span is cheaper than one for each check.
        """
        if self._floors is None:  # few signatures with a single pod need it
            columns = [column for column, _ in self.checks]
            first, stop = min(columns), max(columns) + 1
            floors = np.full((stop - first, 1), -np.inf)
            for column, amount in self.checks:
                floors[column - first, 0] = amount
            self._floors = slice(first, stop), floors
        return self._floors


def _gpu(gpu: GpuRequest) -> tuple[int, int]:
    assert gpu.count >= 1, f"{gpu}"
    assert 1 <= gpu.milli <= DEVICE_MILLI, f"{gpu}"
    assert gpu.count == 1 or gpu.milli == DEVICE_MILLI, f"several shares in {gpu}"
    # Amounts above any node's are cut to one more than that: requests are unbounded.
    return gpu.milli, min(gpu.count, DEVICES_MAX + 1)
