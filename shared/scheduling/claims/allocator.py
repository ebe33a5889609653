"""Chooses devices for a pod's claims on one node.

The search is depth first: claim by claim, request by request, device by device, in the order of
pools, slices and devices. The first choice that works for everything after it counts. Within a
request only combinations are tried, no permutations. Source of the order and of all messages:
dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go (1.35.4, 1.36.3,
1.37.2). 1.35 takes pools and slices in an order of chance; here it is that of the other releases.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from shared.model.claims import (
    RESULTS_MAX,
    Allocation,
    DeviceClass,
    DeviceId,
    DeviceResult,
    DeviceTaint,
    DeviceToleration,
    Request,
    ResourceClaim,
    Wanted,
)
from shared.model.release import V1_36, V1_37
from shared.scheduling.claims.capacity import NONE, Consumption, Shares, share_id
from shared.scheduling.claims.cel.compiler import Selector
from shared.scheduling.claims.cel.errors import EvaluationError
from shared.scheduling.claims.constraints import Bound, BoundByRequest
from shared.scheduling.claims.counters import Consumed, Counters
from shared.scheduling.claims.device_table import EXPRESSIONS_MAX, DeviceCandidate, DeviceTable
from shared.scheduling.claims.reach import NodeView, reaches
from shared.scheduling.claims.results import Chosen, allocation_of

STEPS_MAX = 40_000
"""How often a search looks at a device, or asks a constraint about one, before it gives up: after
about 0.2 s. kube-scheduler gives up after ten seconds.
"""
LOOK_AHEAD_STEPS = 1_000
"""The steps after which a search first counts the devices that are left for a request."""
REJECTING = ("NoSchedule", "NoExecute")
HINT = (
    "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with"
    " has() for optional fields"
)


class AllocationError(ValueError):
    """A fault of claims or classes that ends the pod's attempt on all nodes."""


class NodeRejected(ValueError):
    """No choice was found on this node, for a reason of its own."""


class InvalidPools(NodeRejected):
    """No choice was found, and some pools of the node are invalid."""


class _TooMany(Exception):
    """The claim would get more devices than a result can hold."""


Key = tuple[int, int, int]
"""The places of a claim, of its request, and of the alternative."""


class _Plan(Struct, frozen=True):
    """What one alternative of a request needs; `devices` are all that there are in mode All."""

    key: Key
    request: Request
    wanted: Wanted
    device_class: DeviceClass
    count: int
    devices: tuple[DeviceCandidate, ...] = ()

    @property
    def name(self) -> str:
        """Return the name in results: REQUEST, or REQUEST/ALTERNATIVE."""
        given = self.request
        return f"{given.name}/{self.wanted.name}" if given.has_choice else given.name

    @property
    def short_name(self) -> str:
        """Return the name in messages."""
        return self.wanted.name if self.request.has_choice else self.request.name


class Allocator:
    """Finds devices; `in_use` are those that other claims have, without admin access."""

    def __init__(
        self,
        table: DeviceTable,
        classes: Mapping[str, DeviceClass],
        in_use: Set[DeviceId],
        compiled: Callable[[str], Selector],
        version: str = V1_37,
        shares: Shares | None = None,
    ) -> None:
        """`compiled` returns the selector of an expression, the same object each time; `version` is
        the release of kube-scheduler. Without `shares` no claim has any.
        """
        self.table, self.classes, self.in_use, self.compiled = table, classes, in_use, compiled
        self.shares = shares or Shares()
        self.version = version

    def allocate(
        self, node: NodeView, claims: Sequence[ResourceClaim]
    ) -> tuple[Allocation, ...] | None:
        """Return an allocation for each claim, None if there is none on this node. Raises
        AllocationError, NodeRejected.
        """
        return _Search(self, node, claims).run()


class _Search:
    """One search; its state is what is chosen so far."""

    def __init__(
        self, allocator: Allocator, node: NodeView, claims: Sequence[ResourceClaim]
    ) -> None:
        self._allocator, self._node, self._claims = allocator, node, claims
        self._in_use = allocator.in_use
        self._reached = allocator.table.reached(node)
        self._version = allocator.version
        self._plans: list[list[list[_Plan]]] = []  # by claim, request, alternative
        self._constraints: list[list[Bound]] = []
        self._results: list[list[Chosen]] = [[] for _ in claims]
        self._selected: dict[tuple[int, int], int] = {}  # the alternative, by claim and request
        self._taken: dict[DeviceId, set[int]] = {}  # the claims that a device is chosen for
        self._possible: dict[Key, tuple[Sequence[DeviceCandidate], bool]] = {}
        self._shares = allocator.shares
        self._counters = Counters(self._reached.counters, (allocator.in_use, self._shares))
        self._new_shares: dict[DeviceId, list[Consumption]] = {}
        self._steps = 0

    def run(self) -> tuple[Allocation, ...] | None:
        for number, claim in enumerate(self._claims):
            self._plans.append(self._planned(number, claim))
            self._constraints.append(list(self._bound(claim)))
        try:
            done = self._next_request(0, 0)
        except _TooMany as error:
            raise AllocationError("allocation max size exceeded") from error
        except RecursionError as error:
            raise AllocationError("the pod asks for too many devices") from error
        if not done:
            if any(one.is_invalid for one in self._reached.pools):
                raise InvalidPools("invalid resource pools were encountered")
            return None
        return tuple(
            allocation_of(
                claim,
                self._results[number],
                [self._chosen_class(number, at) for at in range(len(claim.spec.requests))],
                self._node,
                self._version,
            )
            for number, claim in enumerate(self._claims)
        )

    def _chosen_class(self, claim: int, request: int) -> tuple[str, DeviceClass]:
        """Return the name of a request's chosen alternative, and its class."""
        plan = self._plans[claim][request][self._selected.get((claim, request), 0)]
        return plan.name, plan.device_class

    def _planned(self, number: int, claim: ResourceClaim) -> list[list[_Plan]]:
        """Return the plans of a claim's requests. Raises AllocationError."""
        found, least = [], 0
        for at, request in enumerate(claim.spec.requests):
            plans = [
                self._plan((number, at, choice), request, wanted)
                for choice, wanted in enumerate(request.wanted)
            ]
            fewest = min(one.count for one in plans)
            if fewest > RESULTS_MAX - least and self._version >= V1_37:
                raise AllocationError(
                    f"claim {claim.shown}, request {request.name}: adding {fewest} devices exceeds"
                    f" the claim limit of {RESULTS_MAX}, with {least} already accounted for"
                )
            least += fewest
            found.append(plans)
        if least > RESULTS_MAX:
            raise AllocationError(
                f"claim {claim.shown}: number of requested devices {least} exceeds the claim limit"
                f" of {RESULTS_MAX}"
            )
        return found

    def _bound(self, claim: ResourceClaim) -> Iterator[Bound]:
        """Yield a claim's constraints. Raises AllocationError."""
        for number, one in enumerate(claim.spec.constraints):
            if one.distinct and self._version < V1_36:
                raise AllocationError(
                    f"claim {claim.shown}, constraint #{number}: empty constraint (unsupported"
                    " constraint type?)"
                )
            yield (BoundByRequest if one.distinct and self._version < V1_37 else Bound)(one)

    def _plan(self, key: Key, request: Request, wanted: Wanted) -> _Plan:
        claim = self._claims[key[0]]
        device_class = self._allocator.classes.get(wanted.device_class)
        name = wanted.name if request.has_choice else request.name
        if device_class is None:
            raise AllocationError(
                f"claim {claim.shown}, request {name}: could not retrieve device class"
                f" {wanted.device_class}: deviceclass.resource.k8s.io"
                f' "{wanted.device_class}" not found'
            )
        if wanted.count is not None:
            return _Plan(key, request, wanted, device_class, wanted.count)
        plan = _Plan(key, request, wanted, device_class, 0)
        devices = tuple(self._all(claim, plan))
        return _Plan(key, request, wanted, device_class, len(devices), devices)

    def _all(self, claim: ResourceClaim, plan: _Plan) -> Iterator[DeviceCandidate]:
        """Yield all devices that a request selects. Raises AllocationError."""
        for pool in self._reached.pools:
            if pool.is_incomplete or pool.is_invalid:
                why = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(
                    f"claim {claim.shown}, request {plan.short_name}: asks for all devices, but"
                    f" resource pool {pool.shown} is currently {why}"
                )
            for one in pool.devices:
                if self._is_selectable(claim, plan, one) and self._may_bear(plan, one):
                    yield one

    def _may_bear(self, plan: _Plan, one: DeviceCandidate) -> bool:
        """Return whether a device has the capacity for a request: since 1.37 if it were free."""
        if self._version < V1_36:
            return True
        capacity = one.held.capacity[one.at]
        consumed = capacity.consumed(plan.wanted.capacity)
        used = self._shares.of(one.id) if self._version < V1_37 else NONE
        return consumed is not None and capacity.bears(consumed, used)

    def _next_request(self, claim: int, request: int) -> bool:
        """Allocate from this request on; return whether everything has devices."""
        if claim >= len(self._claims):
            return True
        if request >= len(self._plans[claim]):
            try:
                return self._next_request(claim + 1, 0)
            except _TooMany:
                # Another alternative of this claim may leave the next one fewer devices to need.
                return False
        plans = self._plans[claim][request]
        if not plans[0].request.has_choice:
            return self._next_device(claim, request, plans[0], 0, 0)
        all_too_many = True
        for number, plan in enumerate(plans):
            try:
                done = self._next_device(claim, request, plan, 0, 0)
            except _TooMany:
                continue
            all_too_many = False
            if done:
                self._selected[claim, request] = number
                return True
        if all_too_many:
            raise _TooMany
        return False

    def _next_device(self, claim: int, request: int, plan: _Plan, number: int, start: int) -> bool:
        """Allocate from a request's device of this number on, which is not before `start`."""
        if plan.wanted.count is None and not plan.devices:
            return False
        if number >= plan.count:
            return self._next_request(claim, request + 1)
        if plan.count - number > RESULTS_MAX - len(self._results[claim]):
            raise _TooMany
        if plan.wanted.count is None:
            return self._take(claim, request, plan, plan.devices[number], number, 0, must=True)
        possible, is_sure = self._possible_devices(claim, plan)
        too_late = plan.count - number - 1 if is_sure else 0
        if too_late and self._steps > LOOK_AHEAD_STEPS:
            allowed = sum(self._is_allowed(claim, plan, one) for one in possible[start:])
            if allowed <= too_late:
                return False
        for at in range(start, len(possible) - too_late):
            self._step()
            candidate = possible[at]
            if not self._is_free(claim, plan, candidate.id):
                continue
            if not is_sure and not self._is_selectable(self._claims[claim], plan, candidate):
                continue
            if self._take(claim, request, plan, candidate, number, at + 1, must=False):
                return True
        return False

    def _is_allowed(self, claim: int, plan: _Plan, candidate: DeviceCandidate) -> bool:
        """Return whether the constraints allow a device beside those that are chosen."""
        names = plan.request.name, plan.wanted.name
        attributes = candidate.held.attributes[candidate.at]
        constraints = self._constraints[claim]
        self._step(1 + len(constraints))
        return all(one.allows(*names, attributes) for one in constraints)

    def _possible_devices(self, claim: int, plan: _Plan) -> tuple[Sequence[DeviceCandidate], bool]:
        """Return the devices that a request may have, as far as the rest of the search does not
        matter, and whether all of them are selected. Too few of these end a branch, with
        kube-scheduler's result. If a selector fails for one device, all are returned: only the
        search shows whether it reaches that one.
        """
        found = self._possible.get(plan.key)
        if found is None:
            key = plan.device_class.selectors, plan.wanted.selectors
            known = self._reached.selected
            if key not in known:
                if len(known) >= EXPRESSIONS_MAX:
                    known.clear()
                known[key] = self._selected_devices(self._claims[claim], plan)
            selected = known[key]
            devices = self._reached.devices if selected is None else selected
            free = plan.wanted.admin_access or not self._in_use
            possible = devices if free else [one for one in devices if one.id not in self._in_use]
            found = self._possible[plan.key] = possible, selected is not None
        return found

    def _selected_devices(
        self, claim: ResourceClaim, plan: _Plan
    ) -> Sequence[DeviceCandidate] | None:
        """Return the devices that class and request select, None if a selector fails for one."""
        try:
            return [one for one in self._reached.devices if self._is_selectable(claim, plan, one)]
        except AllocationError:
            return None

    def _step(self, steps: int = 1) -> None:
        self._steps += steps
        if self._steps > STEPS_MAX:
            what = "timed out trying to allocate devices"
            if self._version < V1_36:
                raise NodeRejected(what)
            raise AllocationError(f"node {self._node.name}: {what}")

    def _is_free(self, claim: int, plan: _Plan, device: DeviceId) -> bool:
        """Return whether a request may have a device, as others use it."""
        if plan.wanted.admin_access:
            return claim not in self._taken.get(device, ())
        return device not in self._in_use and not self._taken.get(device)

    def _is_selectable(self, claim: ResourceClaim, plan: _Plan, one: DeviceCandidate) -> bool:
        """Return whether class and request select a device that the node reaches. Raises
        AllocationError.
        """
        held, at = one.held, one.at
        named = plan.device_class
        for what, selectors in (
            (f"class {named.name}", named.selectors),
            (f"claim {claim.shown}", plan.wanted.selectors),
        ):
            for number, expression in enumerate(selectors):
                try:
                    if not held.selected(at, self._allocator.compiled(expression)):
                        return False
                except EvaluationError as error:
                    at_device, hint = f" on device {'/'.join(one.id)}", f". {HINT}"
                    if self._version < V1_37:
                        at_device = hint = ""
                    elif "no such key:" not in str(error):
                        hint = ""
                    raise AllocationError(
                        f"{what}: selector #{number}{at_device}: CEL runtime error: {error}{hint}"
                    ) from error
        return held.slice.reach is not None or reaches(held.devices[at].reach, self._node)

    def _take(
        self,
        claim: int,
        request: int,
        plan: _Plan,
        candidate: DeviceCandidate,
        number: int,
        after: int,
        *,
        must: bool,
    ) -> bool:
        """Choose a device and go on; return whether everything after it has devices, too. If not,
        the device is given back.
        """
        device = candidate.held.devices[candidate.at]
        if not self._is_free(claim, plan, candidate.id):
            return False
        if self._version >= V1_36 and _is_tainted(device.taints, plan.wanted.tolerations):
            return False
        charged = candidate.held.consumed[candidate.at]
        if charged and device.is_shared and self._has_shares(candidate.id):
            charged = ()  # the first share did
        if charged and not self._has_counters(candidate.id, charged):
            return False
        names = plan.request.name, plan.wanted.name
        attributes = candidate.held.attributes[candidate.at]
        added = []
        for one in self._constraints[claim]:
            self._step()
            if one.add(*names, attributes):
                added.append(one)
                continue
            _remove(added, names)
            if charged:
                self._counters.give_back(candidate.id, charged)
            if must:
                raise AllocationError(
                    f"claim {self._claims[claim].shown}, request {plan.short_name}: cannot add"
                    f" device {'/'.join(candidate.id)} because a claim constraint would not be"
                    " satisfied"
                )
            return False
        consumed, done = self._consumed(plan, candidate), False
        if consumed is not None:
            self._choose(claim, plan, candidate, consumed)
        try:
            done = consumed is not None and self._next_device(
                claim, request, plan, number + 1, after
            )
        finally:
            if not done:
                if consumed is not None:
                    self._give_back(claim, candidate)
                _remove(added, names)
                if charged:
                    self._counters.give_back(candidate.id, charged)
        return done

    def _consumed(self, plan: _Plan, candidate: DeviceCandidate) -> Consumption | None:
        """Return what a request would consume of a device, None if that is not free."""
        if self._version < V1_36:
            return NONE
        capacity = candidate.held.capacity[candidate.at]
        found = capacity.consumed(plan.wanted.capacity)
        if found is None:
            return None
        new = self._new_shares.get(candidate.id, ())
        return found if capacity.bears(found, self._shares.of(candidate.id), *new) else None

    def _has_shares(self, device: DeviceId) -> bool:
        """Return whether claims have shares of a device. 1.36 overlooks those without capacity."""
        if self._new_shares.get(device) or self._shares.of(device):
            return True
        return self._version >= V1_37 and device in self._shares

    def _choose(
        self, claim: int, plan: _Plan, candidate: DeviceCandidate, consumed: Consumption
    ) -> None:
        """Give a device, or a share of it, to a request."""
        result = _result(plan, candidate.id)
        if candidate.held.devices[candidate.at].is_shared:
            self._new_shares.setdefault(candidate.id, []).append(consumed)
            amounts = tuple((name, str(nano)) for name, nano in sorted(consumed.items()))
            identity = share_id(self._claims[claim], result, len(self._results[claim]))
            result = replace(result, share_id=identity, consumed=amounts)
        else:
            self._taken.setdefault(candidate.id, set()).add(claim)
        device = candidate.held.devices[candidate.at]
        self._results[claim].append(Chosen(result, candidate.held.slice, device))

    def _give_back(self, claim: int, candidate: DeviceCandidate) -> None:
        """Undo the last choice of a claim."""
        self._results[claim].pop()
        if candidate.held.devices[candidate.at].is_shared:
            self._new_shares[candidate.id].pop()
        else:
            self._taken[candidate.id].discard(claim)

    def _has_counters(self, device: DeviceId, consumed: Consumed) -> bool:
        """Return whether a partition's counters are free, and charge them then. 1.35 knows none."""
        return self._version >= V1_36 and self._counters.take(device, consumed)


def _result(plan: _Plan, device: DeviceId) -> DeviceResult:
    wanted = plan.wanted
    return DeviceResult(plan.name, *device, wanted.admin_access, wanted.tolerations)


def _remove(added: list[Bound], names: tuple[str, str]) -> None:
    for one in reversed(added):
        one.remove(*names)


def _is_tainted(taints: Sequence[DeviceTaint], tolerations: Sequence[DeviceToleration]) -> bool:
    """Return whether a taint rejects that is not tolerated."""
    return any(
        taint.effect in REJECTING and not any(_tolerates(one, taint) for one in tolerations)
        for taint in taints
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    return (
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (toleration.operator == "Exists" or toleration.value == taint.value)
    )
