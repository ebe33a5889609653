"""Checks devices of resource claims: no device for two claims at any time, no shares beyond a
device's capacity, claims written before the bind, nothing kept for pods that are gone, no endless
assumption.

It reads a shard's inputs and decisions, and every state that the cluster's claims were in. It does
not know which devices match a claim.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from muster.checker.inputs.history import ClusterHistory, PodTruth
from muster.checker.inputs.journals import Problem
from shared.model.claims import Allocation, ClaimChoice, DeviceId
from shared.model.cluster_objects import ClaimObject, ClusterObject, SliceObject

Attempt = tuple[int, int]
"""A pod and an attempt."""
Amounts = dict[tuple[DeviceId, str], int]
"""Billionths by device and capacity."""


def devices_of(allocation: Allocation | None) -> list[DeviceId]:
    """Return the devices that no other claim may have, nor a share of them."""
    found = () if allocation is None else allocation.results
    alone = (one for one in found if not (one.admin_access or one.share_id))
    return [(one.driver, one.pool, one.device) for one in alone]


def shares_of(claims: Iterable[ClaimObject]) -> Amounts:
    """Return what claims consume together of devices that they share."""
    found: Amounts = {}
    for claim in claims:
        has = claim.value.allocation
        for one in () if has is None else has.results:
            if one.share_id and not one.admin_access:
                for name, nano in one.consumed:
                    place = (one.driver, one.pool, one.device), name
                    found[place] = found.get(place, 0) + int(nano)
    return found


def _capacities(objects: Iterable[ClusterObject]) -> Amounts:
    """Return what devices have."""
    slices = (one.value for one in objects if isinstance(one, SliceObject))
    return {
        ((one.driver, one.pool, device.name), name): int(nano)
        for one in slices
        for device in one.devices
        for name, nano in device.capacity
    }


@dataclass
class Claims:
    """A shard's claims by uid, and what it chose for claims that show no devices yet: for one pod,
    or for several of one attempt of a gang. `outcomes`: the revision of a claim that shows what
    became of such a choice; before it the choice counts.
    """

    shown: dict[str, list[DeviceId]] = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)
    chosen: dict[str, tuple[set[Attempt], list[DeviceId]]] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)

    def update(self, objects: Iterable[ClusterObject]) -> None:
        """Update the claims with these objects; a claim with devices needs no choice any more."""
        for one in objects:
            if not isinstance(one, ClaimObject):
                continue
            is_restored = one.revision < self.revisions.get(one.uid, 0)
            self.shown[one.uid] = devices_of(one.value.allocation)
            self.revisions[one.uid] = one.revision
            if one.value.allocation is not None:
                self._end(one.uid)
            self._end_if_shown(one.uid, is_restored)

    def _end(self, uid: str) -> None:
        self.chosen.pop(uid, None)
        self.outcomes.pop(uid, None)

    def _end_if_shown(self, uid: str, is_restored: bool = False) -> None:
        if uid in self.outcomes and (is_restored or self.revisions[uid] >= self.outcomes[uid]):
            self._end(uid)

    def gone(self, uids: Iterable[str]) -> None:
        """Remove deleted claims."""
        for uid in uids:
            self.shown.pop(uid, None)
            self.revisions.pop(uid, None)
            self._end(uid)

    def settled(self, uid: str, attempt: Attempt, revision: int) -> None:
        """Note that a claim shows at this revision what became of an attempt's choice. It is 0 if
        that was never sent: then it counts on for other pods.
        """
        users, _devices = self.chosen.get(uid, (set(), []))
        if attempt in users:
            users.discard(attempt)
            if revision or not users:
                self.outcomes[uid] = max(revision, self.outcomes.get(uid, 0))
                self._end_if_shown(uid)

    def released(self, pods: Iterable[int], attempt: int) -> None:
        """End what a gang's attempt chose for members that binding never heard of."""
        for pod in pods:
            for uid in list(self.chosen):
                self.settled(uid, (pod, attempt), 0)

    def reserved(self, attempt: Attempt, choices: tuple[ClaimChoice, ...]) -> Iterator[str]:
        """Yield devices of these choices that another claim has, or was chosen for."""
        for choice in choices:
            wanted = devices_of(choice.allocation)
            others = {uid: held for uid, (_, held) in self.chosen.items()}
            for uid, held in (*self.shown.items(), *others.items()):
                both = sorted(set(held) & set(wanted))
                if both and uid != choice.uid:
                    yield f"pod {attempt[0]}: {both[0]} for {choice.name} is that of claim {uid}"
            if choice.allocation is not None:
                users, held = self.chosen.setdefault(choice.uid, (set(), wanted))
                if held != wanted or any(other != attempt[1] for _, other in users):
                    yield f"pod {attempt[0]}: devices were chosen for {choice.name} already"
                users.add(attempt)


def check(history: ClusterHistory) -> Iterator[Problem]:
    """Yield devices that two claims had at a time, and pods that the mesh bound before their claims
    were theirs.
    """
    claims: dict[str, ClaimObject] = {}
    capacities = _capacities(history.objects)
    has_shares = any(shares_of([one]) for _, _, one in history.claim_changes if one is not None)
    binds = sorted((revision, uid) for uid, revision in history.bound_at.items())
    for revision, uid, one in history.claim_changes:
        while binds and binds[0][0] < revision:
            yield from _bound(history.pods.get(binds.pop(0)[1]), claims)
        if one is None:
            claims.pop(uid, None)
            continue
        claims[uid] = one
        mine = set(devices_of(one.value.allocation))
        for other in claims.values() if mine else ():
            both = sorted(mine & set(devices_of(other.value.allocation)))
            if both and other.uid != uid:
                text = f"{'/'.join(both[0])} is that of {one.name} and of {other.name}"
                yield ("one-claim-per-device", f"at revision {revision}: {text}")
        for text in _beyond(one, claims.values(), capacities) if has_shares else ():
            yield ("shares-fit", f"at revision {revision}: {text}")
    for _revision, uid in binds:
        yield from _bound(history.pods.get(uid), claims)


def _beyond(
    changed: ClaimObject, claims: Collection[ClaimObject], capacities: Amounts
) -> Iterator[str]:
    """Yield devices whose shares are beyond what they have, or that one claim has as a whole."""
    mine = shares_of([changed])
    total = shares_of(claims) if mine else {}
    for device, name in mine:
        consumed, has = total[device, name], capacities.get((device, name), 0)
        if consumed > has:
            yield f"claims consume {consumed} of {name} of {'/'.join(device)}, which has {has}"
    whole = set(devices_of(changed.value.allocation))
    for claim in claims:
        theirs = {device for device, _ in shares_of([claim])}
        both = {device for device, _ in mine} & set(devices_of(claim.value.allocation))
        for device in sorted(both | whole & theirs):
            yield f"{'/'.join(device)}: {changed.name} and {claim.name} have a share and the whole"


def _bound(pod: PodTruth | None, claims: dict[str, ClaimObject]) -> Iterator[Problem]:
    if pod is None or not pod.by_mesh:
        return
    by_name = {(one.namespace, one.name): one for one in claims.values()}
    for use in pod.spec.claims:
        claim = by_name.get((pod.namespace, use.claim or use.made or ""))
        has = None if claim is None else claim.value.allocation
        if claim is None or has is None or pod.uid not in claim.reserved_for:
            yield ("bound-before", f"{pod.name} was bound before claim {use.claim or use.made}")
        elif not _reaches(has, pod.node):
            yield ("claim-elsewhere", f"{pod.name} is on {pod.node}, not with {claim.name}")


def _reaches(allocation: Allocation, node: str) -> bool:
    """Return whether the allocation is that of a node, as far as its terms name nodes."""
    needs = [need for term in allocation.nodes or () for need in term.fields]
    return not needs or any(node in need.values for need in needs)


def at_end(history: ClusterHistory) -> Iterator[Problem]:
    """Yield claims with devices that no live pod uses."""
    for one in history.objects:
        if not isinstance(one, ClaimObject) or one.value.allocation is None:
            continue
        live = [uid for uid in one.reserved_for if uid in history.pods]
        if not any(not history.pods[uid].deleted for uid in live):
            yield ("conservation", f"claim {one.name} keeps its devices without users")


def reached(history: ClusterHistory, pod: PodTruth) -> set[str] | None:
    """Return the nodes where the pod's claims have devices or could get some at the end; None if
    this check does not know: it knows single claims for devices of a class, whichever they are.
    """
    found = {(x.namespace, x.name): x for x in history.objects if isinstance(x, ClaimObject)}
    uses = [use.claim or use.made for use in pod.spec.claims]
    claim = found.get((pod.namespace, uses[0] or "")) if len(uses) == 1 else None
    if claim is None or len(claim.value.spec.requests) != 1:
        return None
    names = {node.name for node in history.nodes}
    if claim.value.allocation is not None:
        return {name for name in names if _reaches(claim.value.allocation, name)}
    wanted = claim.value.spec.requests[0].wanted
    if len(wanted) != 1 or wanted[0].count is None or wanted[0].selectors:
        return None
    taken = {device for one in found.values() for device in devices_of(one.value.allocation)}
    free = dict.fromkeys(names, 0)
    for one in history.objects:
        if not isinstance(one, SliceObject) or one.value.reach is None:
            continue
        if any(x.is_shared for x in one.value.devices):
            return None
        left = [
            x for x in one.value.devices if (one.value.driver, one.value.pool, x.name) not in taken
        ]
        for name in names if one.value.reach.all_nodes else {one.value.reach.node} & names:
            free[name] += len(left)
    return {name for name, count in free.items() if count >= wanted[0].count}
