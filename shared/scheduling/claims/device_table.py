"""The devices of all slices: by node, and what each selector says about each device.

A selector is asked once about a device, when the search first reaches it: an error counts only
then, as in kube-scheduler. Equal selectors of all pods and nodes share these answers.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from shared.model.claims import (
    Attribute,
    Device,
    DeviceId,
    DeviceTaint,
    DeviceTaintRule,
    ResourceSlice,
)
from shared.model.release import V1_36, V1_37
from shared.scheduling.claims.capacity import DeviceCapacity
from shared.scheduling.claims.cel.compiler import DeviceView, Domains, Selector
from shared.scheduling.claims.cel.values import Quantity, semver
from shared.scheduling.claims.counters import (
    NO_COUNTERS,
    Consumed,
    Faulty,
    PoolCounters,
    counters_of,
)
from shared.scheduling.claims.reach import NodeView, reaches

PoolId = tuple[str, str]
"""Driver and name of a pool."""
Selectors = tuple[tuple[str, ...], tuple[str, ...]]
"""Expressions of a class, and of a request."""
UNKNOWN, NO, YES = 0, 1, 2
EXPRESSIONS_MAX = 256
"""How many expressions have answers for a slice, and selections for a node, at a time."""


class SliceDevices:
    """A slice's devices as columns; `ids` and the lists are by their place."""

    def __init__(self, given: ResourceSlice) -> None:
        self.slice = given
        self.devices = given.devices
        self.ids: list[DeviceId] = [(given.driver, given.pool, one.name) for one in given.devices]
        self.attributes = [_qualified(one, given.driver) for one in given.devices]
        self.consumed = [_consumed(one) for one in given.devices]
        self.capacity = [DeviceCapacity(one) for one in given.devices]
        self.is_counted = bool(given.counters) or any(self.consumed)
        self._views: list[DeviceView | None] = [None] * len(given.devices)
        self._answers: dict[str, bytearray] = {}

    def selected(self, at: int, selector: Selector) -> bool:
        """Return whether a device meets the selector. Raises EvaluationError."""
        answers = self._answers.get(selector.expression)
        if answers is None:
            if len(self._answers) >= EXPRESSIONS_MAX:
                self._answers.clear()
            answers = self._answers[selector.expression] = bytearray(len(self.devices))
        if answers[at] == UNKNOWN:
            answers[at] = YES if selector.matches(self._view(at)) else NO
        return answers[at] == YES

    def _view(self, at: int) -> DeviceView:
        found = self._views[at]
        if found is None:
            found = self._views[at] = _view(self.devices[at], self.slice.driver)
        return found


def _consumed(device: Device) -> Consumed:
    return tuple(
        ((each.name, name), int(nano)) for each in device.consumes for name, nano in each.counters
    )


def _qualified(device: Device, driver: str) -> dict[str, Attribute]:
    """Return attributes by full name; a name that has its domain wins (lookupAttribute)."""
    bare = {f"{driver}/{name}": one for name, one in device.attributes if "/" not in name}
    return bare | {name: one for name, one in device.attributes if "/" in name}


def _view(device: Device, driver: str) -> DeviceView:
    attributes, capacity = Domains(), Domains()
    for name, one in device.attributes:
        domain, key = _split(name, driver)
        value = semver(str(one.value)) if one.kind == "version" else one.value
        attributes[domain] = {**attributes.get(domain, {}), key: value}
    for name, nano in device.capacity:
        domain, key = _split(name, driver)
        capacity[domain] = {**capacity.get(domain, {}), key: Quantity(int(nano))}
    return DeviceView(driver, attributes, capacity, device.is_shared)


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, key = name.partition("/")
    return (domain, key) if slash else (driver, name)


class DeviceCandidate(Struct, frozen=True, gc=False):
    """A device, by its slice and place in it."""

    held: SliceDevices
    at: int
    id: DeviceId


class Pool(Struct, frozen=True):
    """A pool as one node sees it: the devices of the slices that the node reaches, in the order of
    the slices' names. None of an incomplete or invalid pool counts. The counters are those of all
    its slices.
    """

    id: PoolId
    devices: tuple[DeviceCandidate, ...] = ()
    counters: PoolCounters = NO_COUNTERS
    is_incomplete: bool = False
    is_invalid: bool = False

    @property
    def shown(self) -> str:
        """Return DRIVER/POOL."""
        return "/".join(self.id)


class Reached(Struct, frozen=True):
    """The pools that a node reaches, by driver and name, and their devices. `selected` are those
    that selectors of class and request select, None where one fails for a device; `counters` those
    of pools that have any.
    """

    node: NodeView
    pools: tuple[Pool, ...]
    devices: tuple[DeviceCandidate, ...]
    selected: dict[Selectors, Sequence[DeviceCandidate] | None]
    counters: dict[PoolId, PoolCounters]


class DeviceTable:
    """All slices; the pools of a node are gathered when they are first asked for."""

    def __init__(
        self,
        slices: Iterable[ResourceSlice] = (),
        version: str = V1_37,
        rules: Sequence[DeviceTaintRule] = (),
    ) -> None:
        """`version` is the release of kube-scheduler."""
        rules = rules if version >= V1_37 else ()
        self._version = version
        self._on_node: dict[str, list[SliceDevices]] = {}
        self._shared: list[SliceDevices] = []
        self._of_pool: dict[PoolId, list[SliceDevices]] = {}
        self._reached: dict[str, Reached] = {}
        for one in sorted(slices, key=lambda one: one.name):
            seen = _tainted(one, rules) if version >= V1_36 else _without_shares(one)
            self._add(SliceDevices(seen))

    def _add(self, one: SliceDevices) -> None:
        reach = one.slice.reach
        if reach is not None and reach.node and not self._is_everywhere(one.slice):
            self._on_node.setdefault(reach.node, []).append(one)
        else:
            self._shared.append(one)
        self._of_pool.setdefault((one.slice.driver, one.slice.pool), []).append(one)

    def may_reach(self, node: str) -> bool:
        """Return whether a slice names the node, or others than one node."""
        return bool(self._shared) or node in self._on_node

    def reached(self, node: NodeView) -> Reached:
        """Return what the node reaches (GatherPools)."""
        held = self._reached.get(node.name)
        if held is not None and held.node == node:
            return held
        found: dict[PoolId, list[SliceDevices]] = {}
        for one in (*self._on_node.get(node.name, ()), *self._shared):
            if self._is_reached(one.slice, node):
                _keep_newest(found, one)
        gathered = (self._pool(key, found[key]) for key in sorted(found))
        pools = tuple(one for one in gathered if one is not None)
        devices = tuple(one for pool in pools for one in pool.devices)
        counters = {one.id: one.counters for one in pools if one.counters.held}
        self._reached[node.name] = held = Reached(node, pools, devices, {}, counters)
        return held

    def _is_everywhere(self, one: ResourceSlice) -> bool:
        """Return whether all nodes see a slice, as those with counters in 1.36."""
        return self._version == V1_36 and bool(one.counters)

    def _is_reached(self, one: ResourceSlice, node: NodeView) -> bool:
        if one.counters and self._version <= V1_36:
            return self._is_everywhere(one)
        if one.reach is not None:
            return reaches(one.reach, node)
        # 1.35 passes over devices with a reach of their own.
        return self._version >= V1_36 and any(reaches(each.reach, node) for each in one.devices)

    def _pool(self, key: PoolId, reached: list[SliceDevices]) -> Pool | None:
        """Return a pool; None if another node has slices of a newer generation."""
        reached.sort(key=lambda one: one.slice.name)
        newest, wanted = reached[0].slice.generation, reached[0].slice.slice_count
        whole = reached
        if len(reached) != wanted:
            others = self._of_pool[key]
            if any(one.slice.generation > newest for one in others):
                return None
            whole = [one for one in others if one.slice.generation == newest]
            if len(whole) != wanted:
                return Pool(key, is_incomplete=True)
        counters = self._counters(whole)
        if counters is None or _has_duplicates(reached):
            return Pool(key, is_invalid=True)
        devices = (
            DeviceCandidate(held, at, name) for held in reached for at, name in enumerate(held.ids)
        )
        return Pool(key, tuple(devices), counters)

    def _counters(self, slices: Sequence[SliceDevices]) -> PoolCounters | None:
        """Return the counters of a pool's slices, None if they are contradictory. 1.35 has none."""
        if self._version < V1_36 or not any(one.is_counted for one in slices):
            return NO_COUNTERS
        consumed = [pair for one in slices for pair in zip(one.ids, one.consumed, strict=True)]
        try:
            return counters_of((one.slice for one in slices), consumed)
        except Faulty:
            return None


def _keep_newest(found: dict[PoolId, list[SliceDevices]], one: SliceDevices) -> None:
    """Add a slice to its pool, unless it is older; a newer one replaces all."""
    key = one.slice.driver, one.slice.pool
    held = found.get(key)
    if held is None or one.slice.generation > held[0].slice.generation:
        found[key] = [one]
    elif one.slice.generation == held[0].slice.generation:
        held.append(one)


def _tainted(one: ResourceSlice, rules: Sequence[DeviceTaintRule]) -> ResourceSlice:
    """Return a slice with the taints of rules (applyPatches of the resourceslice tracker)."""
    matching = [
        rule
        for rule in rules
        if rule.selects and rule.driver in (None, one.driver) and rule.pool in (None, one.pool)
    ]
    if not matching:
        return one
    devices = (
        replace(device, taints=(*device.taints, *_taints(device.name, matching)))
        for device in one.devices
    )
    return replace(one, devices=tuple(devices))


def _taints(device: str, rules: Sequence[DeviceTaintRule]) -> Iterator[DeviceTaint]:
    return (rule.taint for rule in rules if rule.device in (None, device))


def _without_shares(one: ResourceSlice) -> ResourceSlice:
    """Return a slice as 1.35 sees it."""
    devices = (replace(each, is_shared=False, policies=()) for each in one.devices)
    return replace(one, devices=tuple(devices))


def _has_duplicates(slices: Sequence[SliceDevices]) -> bool:
    names = [one.name for held in slices for one in held.devices]
    return len(set(names)) < len(names)
