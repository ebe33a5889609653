"""Shares of devices: what a request consumes of a device's capacity (KEP-5075). Source:
dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from shared.model.claims import (
    Allocation,
    Amounts,
    CapacityPolicy,
    Device,
    DeviceId,
    DeviceResult,
    ResourceClaim,
)

Consumption = Mapping[str, int]
"""Capacities in billionths, by name."""
NONE: Consumption = {}
UNIT = 10**9


class DeviceCapacity:
    """What a device has, and what shares of it may consume."""

    def __init__(self, device: Device) -> None:
        self.is_shared = device.is_shared
        self._has = {name: int(nano) for name, nano in device.capacity}
        self._policies = {one.name: _Policy(one) for one in device.policies}

    def consumed(self, asked: Amounts) -> Consumption | None:
        """Return what a request consumes, None if the device cannot serve it: it lacks a capacity,
        or a policy does not permit the amount.
        """
        if not asked and not self.is_shared and not self._policies:
            return self._has
        wanted = dict(asked)
        if not wanted.keys() <= self._has.keys():
            return None
        found = {}
        for name, has in self._has.items():
            policy = self._policies.get(name)
            nano = int(wanted[name]) if name in wanted else None
            if policy is None:
                found[name] = has if nano is None else nano
                continue
            found[name] = consumed = policy.consumed(nano, has)
            if not policy.permits(consumed):
                return None
        return found

    def bears(self, consumed: Consumption, *others: Consumption) -> bool:
        """Return whether the device has enough for a share beside others."""
        return all(
            nano + sum(one.get(name, 0) for one in others) <= self._has[name]
            for name, nano in consumed.items()
        )


class _Policy:
    """A policy with its amounts in billionths."""

    def __init__(self, given: CapacityPolicy) -> None:
        self._default = _nano(given.default)
        self._values = [int(one) for one in given.values]
        self._has_range = given.has_range
        self._least, self._most = _nano(given.least), _nano(given.most)
        self._step = _nano(given.step)

    def consumed(self, asked: int | None, has: int) -> int:
        """Return what is consumed, at least what is asked (calculateConsumedCapacity). Steps are
        counted in whole units: the gate DRAFractionalCapacityRange is off by default.
        """
        if asked is None:
            return has if self._default is None else self._default
        if self._has_range and self._least is not None:
            if asked < self._least:
                return self._least
            if self._step is None:
                return asked
            least, step = _units(self._least), _units(self._step)
            steps = -(-(_units(asked) - least) // step)
            return (least + steps * step) * UNIT
        return next((one for one in self._values if asked <= one), asked)

    def permits(self, consumed: int) -> bool:
        """Return whether an amount may be consumed (violatesPolicy)."""
        if consumed == self._default:
            return True
        if not self._has_range:
            return not self._values or consumed in self._values
        if self._most is not None and consumed > self._most:
            return False
        if self._step is None or self._least is None:
            return True
        return (_units(consumed) - _units(self._least)) % _units(self._step) == 0


def _nano(text: str) -> int | None:
    return int(text) if text else None


def _units(nano: int) -> int:
    """Return an amount in whole units, rounded up."""
    return -(-nano // UNIT)


class Shares:
    """The shares of devices that claims have."""

    def __init__(self, allocations: Iterable[Allocation] = ()) -> None:
        self._consumed: dict[DeviceId, dict[str, int]] = {}
        self._numbers: dict[DeviceId, int] = {}
        for one in (one for each in allocations for one in each.results):
            if one.share_id and not one.admin_access:
                self.add(one)

    def __contains__(self, device: object) -> bool:
        """Return whether there is a share of the device."""
        return device in self._consumed

    def of(self, device: DeviceId) -> Consumption:
        """Return what the shares of a device consume."""
        return self._consumed.get(device, NONE)

    def add(self, share: DeviceResult, sign: int = 1) -> None:
        """Count one more share, or (`sign` -1) one less."""
        device = share.id
        left = self._numbers[device] = self._numbers.get(device, 0) + sign
        if not left:
            del self._numbers[device], self._consumed[device]
            return
        held = self._consumed.setdefault(device, {})
        for name, nano in share.consumed:
            held[name] = held.get(name, 0) + sign * int(nano)


def share_id(claim: ResourceClaim, result: DeviceResult, number: int) -> str:
    """Return an identity for the claim's result of this number, in the form of a UUID: the same
    each time, as decisions are repeated.
    """
    text = "\0".join((claim.uid, *result.id, result.request, str(number)))
    digits = blake2b(text.encode(), digest_size=16).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
