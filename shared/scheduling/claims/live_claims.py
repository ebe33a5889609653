"""Classes, slices and claims as they change, with what reservations have chosen, and the nodes that
equal claims fit.

A device is in use while a claim shows it (facts), and while a reservation has it for a claim that
does not show devices yet (assumptions). An assumption ends when the claim shows devices or is gone.
It also ends with the first fact that is as new as its outcome, which binding reports.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct, convert
from msgspec.structs import replace
from numpy.typing import NDArray

from shared.model.claims import (
    ALTERNATIVES_MAX,
    Allocation,
    ClaimChoice,
    ClaimName,
    ClaimSpec,
    DeviceId,
    DeviceResult,
    ResourceClaim,
    ResourceSlice,
)
from shared.model.cluster_objects import (
    ClaimObject,
    ClassObject,
    DeviceObject,
    SliceObject,
    TaintRuleObject,
)
from shared.model.ids import AttemptId, PodId
from shared.model.objects import Node, PodSpec
from shared.model.release import V1_36
from shared.scheduling.claims.allocator import Allocator, NodeRejected
from shared.scheduling.claims.device_table import DeviceTable, PoolId
from shared.scheduling.claims.pod_claims import (
    NO_ALLOCATION,
    NOT_AVAILABLE,
    ClaimFacts,
    ClaimingPod,
    NotReady,
)
from shared.scheduling.claims.reach import NodeView, among
from shared.scheduling.claims.results import prioritized
from shared.scheduling.table.layout import I64, Mask

ENTRIES_MAX = 256
"""How many shapes of claims have their nodes kept at a time."""
TOUCHED_MAX = 4_096
"""How many changed nodes are remembered for them."""
FITS, NOWHERE = 0, 1


class Nodes(Protocol):
    """What is asked of a node table."""

    nodes: list[Node]
    static_version: int

    def row_named(self, name: str) -> int | None:
        """Return the row of the node with this name, or None."""
        ...


class Assumption(Struct, frozen=True, omit_defaults=True):
    """Devices that a reservation has for a claim: those of a pod's attempt. `revision`: the claim's
    resourceVersion that shows the outcome, 0 while a write may still land. `others`: members of its
    gang that share the claim.
    """

    pod: PodId
    attempt: AttemptId
    allocation: Allocation
    revision: int = 0
    others: tuple[PodId, ...] = ()


class _Entry(Struct):
    """How claims of one shape fit each node: a place among `reasons`, 0 where they do, and the
    score of what they would get.
    """

    statics: int
    restarts: int
    position: int
    verdicts: NDArray[np.int16]
    scores: I64
    reasons: list[str]


class LiveClaims:
    """All objects of devices; `version` rises with each change. `knows_all` False: other shards
    have nodes too, so pools that several nodes reach are not used.
    """

    def __init__(self, objects: Iterable[DeviceObject] = ()) -> None:
        """Start with `objects`."""
        self.version = 0
        self.knows_all = True
        self.facts = ClaimFacts()
        self._held: dict[str, DeviceObject] = {}
        self._names: dict[tuple[str, str, str], str] = {}  # kind, namespace, name -> uid
        self._claims: dict[ClaimName, ClaimObject] = {}
        self._assumed: dict[str, Assumption] = {}  # by the claim's uid
        self._tried: dict[str, tuple[int, Allocation]] = {}  # by the claim's uid: pods of a trial
        self._users: dict[DeviceId, int] = {}  # how many claims have a device
        # Slices by pool: uid -> the node that reaches it, empty if several may.
        self._pools: dict[PoolId, dict[str, str]] = {}
        self._is_table_old = False
        self._entries: dict[tuple[ClaimSpec, ...], _Entry] = {}
        self._restarts = 0
        self._touched: list[str] = []  # nodes whose devices came into use or are free again
        for one in objects:
            self.put(one)

    # ------------------------------------------------------------------------------ facts

    def dump(self) -> list[Any]:
        """Return all objects by uid, and what is assumed; nothing if there is neither."""
        if not (self._held or self._assumed):
            return []
        return [[one for _, one in sorted(self._held.items())], sorted(self._assumed.items())]

    @classmethod
    def load(cls, saved: Any) -> "LiveClaims":
        """Restore what `dump` returned."""
        if not saved:
            return cls()
        found = cls(convert(saved[0], list[DeviceObject]))
        for uid, one in convert(saved[1], list[tuple[str, Assumption]]):
            found.assume(uid, one)
        return found

    def put(self, one: DeviceObject) -> bool:
        """Add or change an object; return whether refused pods may fit now."""
        older = self._names.get(_name_of(one), one.uid)
        if older != one.uid:
            self.remove(older)  # its deletion is still to be seen
        before = self._held.get(one.uid)
        self._held[one.uid], self._names[_name_of(one)] = one, one.uid
        self.version += 1
        match one:
            case ClassObject():
                self.facts.classes[one.value.name] = one.value
                self._restart()
            case SliceObject():
                self._note_slice(before, one)
            case TaintRuleObject():
                self._is_table_old = True
                self._restart()
            case ClaimObject():
                return self._put_claim(before, one)
        return True

    def remove(self, uid: str) -> bool:
        """Remove an object; an unknown one is ignored. Return whether refused pods may fit now."""
        one = self._held.pop(uid, None)
        if one is None:
            return False
        del self._names[_name_of(one)]
        self.version += 1
        match one:
            case ClassObject():
                del self.facts.classes[one.value.name]
                self._restart()
            case SliceObject():
                self._note_slice(one, None)
            case TaintRuleObject():
                self._is_table_old = True
                self._restart()
            case ClaimObject():
                del self._claims[one.value.key], self.facts.claims[one.value.key]
                self._end(uid)
                self._charge(one.value.allocation, -1)
        return True

    def _put_claim(self, before: DeviceObject | None, one: ClaimObject) -> bool:
        old = before.value.allocation if isinstance(before, ClaimObject) else None
        new = one.value.allocation
        self._claims[one.value.key] = one
        self.facts.claims[one.value.key] = one.value
        self._charge(new, 1)
        self._charge(old, -1)
        given = self._end(one.uid) if new is not None or self._is_settled(before, one) else None
        old = old if given is None else given.allocation
        return old is not None and (new is None or old.results != new.results)

    def _is_settled(self, before: DeviceObject | None, after: ClaimObject) -> bool:
        """Return whether a fact shows the outcome of an assumption. Revisions fall when the cluster
        is restored from a backup: then nothing newer will come.
        """
        given = self._assumed.get(after.uid)
        if given is None or not given.revision:
            return False
        has_fallen = isinstance(before, ClaimObject) and after.revision < before.revision
        return after.revision >= given.revision or has_fallen

    def _note_slice(self, before: DeviceObject | None, after: SliceObject | None) -> None:
        if isinstance(before, SliceObject):
            pool = _pool_of(before.value)
            del self._pools[pool][before.uid]
            if not self._pools[pool]:
                del self._pools[pool]
        if after is not None:
            reach, slices = after.value.reach, self._pools.setdefault(_pool_of(after.value), {})
            slices[after.uid] = "" if reach is None else reach.node
        self._is_table_old = True
        self._restart()

    def _node_of(self, pool: PoolId) -> str:
        """Return the only node that reaches a pool; empty if there are more, or none is known."""
        nodes = set(self._pools.get(pool, {}).values())
        return nodes.pop() if len(nodes) == 1 else ""

    def _table(self) -> DeviceTable:
        if self._is_table_old:
            slices = [one.value for one in self._held.values() if isinstance(one, SliceObject)]
            known = (one for one in slices if self.knows_all or self._node_of(_pool_of(one)))
            rules = [one.value for one in self._held.values() if isinstance(one, TaintRuleObject)]
            self.facts.table = DeviceTable(known, self.facts.version, rules)
            self._is_table_old = False
        return self.facts.table

    def follow(self, version: str) -> None:
        """Choose devices as this release of kube-scheduler."""
        if version != self.facts.version:
            given = self._allocations()
            for one in given:
                self._charge(one, -1)
            self.facts.version, self._is_table_old = version, True
            for one in given:
                self._charge(one, 1)
            self._restart()

    def _allocations(self) -> list[Allocation]:
        """Return what claims show, and what is assumed for them."""
        shown = (one.value.allocation for _, one in self._held_claims())
        assumed = (one.allocation for one in self._assumed.values())
        return [one for one in (*shown, *assumed) if one is not None]

    # ------------------------------------------------------------------------ assumptions

    def assume(self, uid: str, one: Assumption) -> None:
        """Give a claim devices for a reservation, until facts show the outcome. Members of a gang
        may share the devices.
        """
        held = self._assumed.get(uid)
        if held is not None:
            is_shared = (held.attempt, held.allocation) == (one.attempt, one.allocation)
            assert is_shared, f"claim {uid} was given devices twice"
            self._assumed[uid] = replace(held, others=(*held.others, one.pod))
            return
        self._assumed[uid] = one
        self._charge(one.allocation, 1)
        self.version += 1

    def settle(self, uid: str, pod: PodId, attempt: AttemptId, revision: int) -> bool:
        """Let this attempt's assumption about a claim end with the first fact of this
        resourceVersion or a later one; return whether it has ended. With 0 nothing was written for
        this pod; other members may still write.
        """
        one, held = self._assumed.get(uid), self._held.get(uid)
        if one is None or one.attempt != attempt or pod not in (one.pod, *one.others):
            return False
        if not revision and one.others:
            left = [other for other in (one.pod, *one.others) if other != pod]
            self._assumed[uid] = replace(one, pod=left[0], others=tuple(left[1:]))
            return False
        assert isinstance(held, ClaimObject), f"devices are assumed for {uid}, which is gone"
        if held.revision >= revision:
            self._end(uid)
            return True
        self._assumed[uid] = replace(one, revision=max(revision, one.revision))
        return False

    def _end(self, uid: str) -> Assumption | None:
        """End the assumption about a claim, and return it."""
        one = self._assumed.pop(uid, None)
        if one is not None:
            self._charge(one.allocation, -1)
            self.version += 1
        return one

    # ----------------------------------------------------------------------------- trials

    def try_out(self, uid: str, allocation: Allocation) -> None:
        """Give a claim devices until all pods of a trial that use it are taken back."""
        users = self._tried.get(uid, (0, allocation))[0]
        self._tried[uid] = users + 1, allocation
        if not users:
            self._charge(allocation, 1)
            self.version += 1

    def take_back(self, uid: str) -> None:
        """Take back one pod of a trial that uses the claim."""
        users, allocation = self._tried.pop(uid)
        if users > 1:
            self._tried[uid] = users - 1, allocation
        else:
            self._charge(allocation, -1)
            self.version += 1

    def _charge(self, allocation: Allocation | None, sign: int) -> None:
        for one in self._counted(allocation):
            if self._is_share(one):
                self.facts.shares.add(one, sign)
                self._touch(self._node_of(one.id[:2]))
            else:
                self._use(one.id, sign)

    def _counted(self, allocation: Allocation | None) -> Iterator[DeviceResult]:
        """Yield the devices and shares that other claims cannot have."""
        results = () if allocation is None else allocation.results
        return (one for one in results if not one.admin_access)

    def _is_share(self, one: DeviceResult) -> bool:
        return bool(one.share_id) and self.facts.version >= V1_36

    def _use(self, device: DeviceId, sign: int) -> None:
        left = self._users.get(device, 0) + sign
        if left:
            self._users[device] = left
        else:
            del self._users[device]
        if (device in self.facts.in_use) == bool(left):
            return
        if left:
            self.facts.in_use.add(device)
        else:
            self.facts.in_use.discard(device)
        self._touch(self._node_of(device[:2]))

    def _touch(self, node: str) -> None:
        if not node or len(self._touched) >= TOUCHED_MAX:
            self._restart()  # several nodes reach the device
        else:
            self._touched.append(node)

    def _restart(self) -> None:
        self._restarts += 1
        self._touched.clear()

    def check(self) -> None:
        """Check the books: each device counts once for each claim that has it, and no claim shows
        devices and is assumed to get some.
        """
        shown = {uid: one.value.allocation for uid, one in self._held_claims()}
        both = [uid for uid in self._assumed if shown.get(uid) is not None]
        assert not both, f"claims with devices are still given some: {sorted(both)}"
        users: dict[DeviceId, int] = {}
        for one in (one for each in self._allocations() for one in self._counted(each)):
            if not self._is_share(one):
                users[one.id] = users.get(one.id, 0) + 1
        assert users == self._users, "devices in use differ from the claims"
        assert set(users) == self.facts.in_use, "devices in use differ from their counts"

    def _held_claims(self) -> Iterator[tuple[str, ClaimObject]]:
        return ((uid, one) for uid, one in self._held.items() if isinstance(one, ClaimObject))

    # --------------------------------------------------------------------------- decisions

    def of_pod(self, spec: PodSpec) -> list[ResourceClaim]:
        """Return the claims of a pod that can be tried. Raises NotReady."""
        named = next((one for one in spec.claims if one.pod), spec.claims[0])
        pod = ClaimingPod(spec.namespace, named.pod, named.owner, spec.claims)
        resolved = {one.uid: self._as_tried(one) for one in self.facts.resolve(pod)}
        found = list(resolved.values())
        for claim in found:
            problem = self._claims[claim.key].problem
            if problem:
                raise NotReady(f"ResourceClaim {claim.shown}: {problem}")
            if claim.allocation is None and claim.uid in self._assumed:
                what = f"resource claim {claim.shown} is in the process of being allocated"
                raise NotReady(what)
        self.facts.check_classes(found)
        return found

    def _as_tried(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim with the devices that earlier pods of a trial gave it."""
        if claim.uid not in self._tried:
            return claim
        return replace(claim, allocation=self._tried[claim.uid][1])

    def refusals(self, nodes: Nodes, claims: Sequence[ResourceClaim]) -> list[tuple[str, Mask]]:
        """Return the nodes that the claims do not fit, by reason. Raises AllocationError."""
        new = [one for one in claims if one.allocation is None]
        found: list[tuple[str, Mask]] = []
        fits = np.ones(len(nodes.nodes), np.bool_)
        if new:
            entry = self._entry(nodes, new)
            fits = entry.verdicts == FITS
            found = [
                (text, entry.verdicts == number)
                for number, text in enumerate(entry.reasons)
                if number != FITS
            ]
        held = (one.allocation for one in claims if one.allocation is not None)
        for terms in (one.nodes for one in held if one.nodes is not None):
            reached = np.array(
                [among(terms, NodeView(one.name, one.labels)) for one in nodes.nodes], np.bool_
            )
            found.append((NOT_AVAILABLE, fits & ~reached))
            fits &= reached
        return found

    def scores(self, nodes: Nodes, claims: Sequence[ResourceClaim]) -> I64 | None:
        """Return the score of each node before it is normalised; None if no claim has alternatives,
        or all have devices. Raises AllocationError.
        """
        new = [one for one in claims if one.allocation is None]
        if not new or not any(one.has_choice for claim in claims for one in claim.spec.requests):
            return None
        held = sum(
            prioritized(one, one.allocation, ALTERNATIVES_MAX)
            for one in claims
            if one.allocation is not None
        )
        return self._entry(nodes, new).scores + held

    def choices(self, claims: Sequence[ResourceClaim], node: Node) -> tuple[ClaimChoice, ...]:
        """Return what is to be written for each of a pod's claims that fit this node."""
        self._table()
        fit = self.facts.fit(claims, NodeView(node.name, node.labels))
        assert not fit.reason, f"node {node.name}: {fit.reason}"
        given = {claim.uid: allocation for claim, allocation in fit.allocations}
        given |= {uid: self._tried[uid][1] for one in claims if (uid := one.uid) in self._tried}
        return tuple(
            ClaimChoice(*one.key, one.uid, self._claims[one.key].revision, given.get(one.uid))
            for one in claims
        )

    def _entry(self, nodes: Nodes, new: Sequence[ResourceClaim]) -> _Entry:
        """Return how claims like these fit each node, brought up to date."""
        table, key = self._table(), tuple(one.spec for one in new)
        version = nodes.static_version, self._restarts
        entry = self._entries.get(key)
        if entry is None or (entry.statics, entry.restarts) != version:
            rows: Iterable[int] = range(len(nodes.nodes))
            verdicts, scores = (
                np.zeros(len(nodes.nodes), np.int16),
                np.zeros(len(nodes.nodes), np.int64),
            )
            entry = _Entry(*version, len(self._touched), verdicts, scores, ["", NO_ALLOCATION])
        else:
            touched = dict.fromkeys(self._touched[entry.position :])
            found = (nodes.row_named(name) for name in touched)
            rows = [row for row in found if row is not None]
            entry.position = len(self._touched)
        try:
            self._look(entry, nodes, table, new, rows)
        except ValueError:
            self._entries.pop(key, None)
            raise
        if len(self._entries) >= ENTRIES_MAX:
            self._entries.clear()
        self._entries[key] = entry
        return entry

    def _look(
        self,
        entry: _Entry,
        nodes: Nodes,
        table: DeviceTable,
        new: Sequence[ResourceClaim],
        rows: Iterable[int],
    ) -> None:
        facts = self.facts
        allocator = Allocator(
            table, facts.classes, facts.in_use, facts.compiled, facts.version, facts.shares
        )
        elsewhere: tuple[int, int] | None = None  # on all nodes that reach no device
        for row in rows:
            node = nodes.nodes[row]
            has_devices = table.may_reach(node.name)
            if has_devices or elsewhere is None:
                view = NodeView(node.name, node.labels)
                found = _verdict(allocator, view, new, entry.reasons)
                if not has_devices:
                    elsewhere = found
            else:
                found = elsewhere
            entry.verdicts[row], entry.scores[row] = found


def _verdict(
    allocator: Allocator, node: NodeView, claims: Sequence[ResourceClaim], reasons: list[str]
) -> tuple[int, int]:
    """Return the place of the reason, and the score."""
    try:
        found = allocator.allocate(node, claims)
    except NodeRejected as error:
        if str(error) not in reasons:
            reasons.append(str(error))
        return reasons.index(str(error)), 0
    if found is None:
        return NOWHERE, 0
    pairs = zip(claims, found, strict=True)
    return FITS, sum(prioritized(one, has, ALTERNATIVES_MAX) for one, has in pairs)


def _pool_of(one: ResourceSlice) -> PoolId:
    return one.driver, one.pool


def _name_of(one: DeviceObject) -> tuple[str, str, str]:
    return type(one).__name__, one.namespace, one.name
