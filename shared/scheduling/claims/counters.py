"""Counters that the devices of a pool share, such as the memory of one GPU in several partitions
(KEP-4815, partitionable devices).
"""

from collections.abc import Container, Iterable, Mapping, Sequence

from msgspec import Struct

from shared.model.claims import DeviceId, ResourceSlice

CounterId = tuple[str, str]
"""A counter set, and a counter in it."""
Consumed = tuple[tuple[CounterId, int], ...]
"""What a device consumes, in billionths."""


class Faulty(ValueError):
    """A pool's counters are contradictory."""


class PoolCounters(Struct, frozen=True):
    """What the counters of a pool hold, in billionths, and what its devices consume."""

    held: dict[CounterId, int] = {}
    consumers: tuple[tuple[DeviceId, Consumed], ...] = ()

    def left(self, in_use: Sequence[Container[DeviceId]]) -> dict[CounterId, int]:
        """Return what devices in use leave; it may be negative."""
        found = dict(self.held)
        for device, consumed in self.consumers:
            if any(device in some for some in in_use):
                for counter, amount in consumed:
                    found[counter] -= amount
        return found


NO_COUNTERS = PoolCounters()


def counters_of(
    slices: Iterable[ResourceSlice], consumers: Sequence[tuple[DeviceId, Consumed]]
) -> PoolCounters:
    """Return the counters of all slices of a pool. Raises Faulty for sets of one name, and unknown
    counters (buildPool).
    """
    sets: dict[str, dict[CounterId, int]] = {}
    for one in (one for each in slices for one in each.counters):
        if one.name in sets:
            raise Faulty(f"duplicate counter set name {one.name}")
        sets[one.name] = {(one.name, name): int(nano) for name, nano in one.counters}
    held = {counter: amount for each in sets.values() for counter, amount in each.items()}
    for _, consumed in consumers:
        for counter, _ in consumed:
            if counter not in held:
                raise Faulty(f"counter {'/'.join(counter)} not found")
    return PoolCounters(held, tuple(one for one in consumers if one[1]))


class Counters:
    """What is left of the counters of a node's pools during a search."""

    def __init__(
        self,
        pools: Mapping[tuple[str, str], PoolCounters],
        in_use: Sequence[Container[DeviceId]],
    ) -> None:
        """`pools` are by driver and name."""
        self._pools, self._in_use = pools, in_use
        self._left: dict[tuple[str, str], dict[CounterId, int]] = {}

    def take(self, device: DeviceId, consumed: Consumed) -> bool:
        """Return whether all counters of the pool bear one more device, and charge it then."""
        pool = device[:2]
        left = self._left.get(pool)
        if left is None:
            left = self._left[pool] = self._pools[pool].left(self._in_use)
        for counter, amount in consumed:
            left[counter] -= amount
        if min(left.values()) >= 0:
            return True
        self.give_back(device, consumed)
        return False

    def give_back(self, device: DeviceId, consumed: Consumed) -> None:
        """Undo the charge of a device."""
        left = self._left[device[:2]]
        for counter, amount in consumed:
            left[counter] += amount
