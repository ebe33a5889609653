"""Counters of inter-pod rules: how many selected pods each node has, and the volumes they use.

A counter is a row of a matrix, with a column for each row of the node table. There are two kinds:
pods that a selector matches (read by rules of pods to be placed), and pods that have a term
themselves (it applies to later pods). A signature decides which counters its pods move, so a charge
costs nothing without rules.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shared.model.objects import HOSTNAME, PodSpec, Selector
from shared.model.volumes import ClaimUse
from shared.scheduling.table.layout import I32, I64, Mask
from shared.scheduling.table.multiset import add
from shared.scheduling.table.selectors import (
    Matcher,
    NamespaceLabels,
    Places,
    matcher_of,
    places_of,
    places_of_matcher,
)
from shared.scheduling.volumes.volume_uses import Use, Uses, VolumeUses, place_of

if TYPE_CHECKING:
    from shared.scheduling.cycle.signature import Signature

AFFINE, OPPOSED, PREFERRED, AVOIDED = KINDS = ("affine", "opposed", "preferred", "avoided")


class Matching(NamedTuple):
    """Pods that all matchers select; terminating ones count unless only `lasting` do."""

    matchers: tuple[Matcher, ...]
    lasting: bool = False

    def matches(self, spec: PodSpec, labels_of: NamespaceLabels) -> bool:
        """Return whether pods of this signature are counted."""
        if self.lasting and spec.terminating:
            return False
        return all(matcher.matches(spec, labels_of) for matcher in self.matchers)


class Owning(NamedTuple):
    """Pods with a term of this kind; a preferred one counts with its weight."""

    kind: str
    topology_key: str
    matcher: Matcher


Counter = Matching | Owning


def read_by(sig: "Signature") -> list[Matching]:
    """Return the counters that the rules of a pod read, each once."""
    spec = sig.spec
    found = [
        spread_counter(spec, one.selector)
        for one in sig.constraints
        if one.selector or (one.hard and one.selector is not None)
    ]
    if spec.pod_affinity:
        found.append(affinity_counter(sig))
    terms = (*spec.pod_anti_affinity, *(one.term for one in spec.pods_preferred))
    found += [Matching((sig.plugins.sought(term, spec),)) for term in terms]
    return list(dict.fromkeys(found))


def read_across_nodes(sig: "Signature") -> list[Counter]:
    """Return the counters of required rules that read the pods of several nodes. Also by hostname a
    spread has a least count of all nodes, and affinity lets the first pod go anywhere.
    """
    spec = sig.spec
    found: list[Counter] = [
        spread_counter(spec, one.selector) for one in sig.constraints if one.hard and one.selector
    ]
    if spec.pod_affinity:
        found.append(affinity_counter(sig))
    for term in spec.pod_anti_affinity:
        if term.topology_key != HOSTNAME:
            found.append(Matching((sig.plugins.sought(term, spec),)))
            found.append(Owning(OPPOSED, term.topology_key, matcher_of(term, spec)))
    return list(dict.fromkeys(found))


def spread_counter(spec: PodSpec, selector: Selector) -> Matching:
    """Return the counter of a spread constraint: pods of the namespace that it selects."""
    return Matching((Matcher(selector, (spec.namespace,)),), lasting=True)


def affinity_counter(sig: "Signature") -> Matching:
    """Return the counter of pods that all terms of required affinity select."""
    return Matching(tuple(sig.plugins.sought(term, sig.spec) for term in sig.spec.pod_affinity))


def owned_by(spec: PodSpec) -> dict[Owning, int]:
    """Return the counters that a pod moves with its own terms, and by how much."""
    found: dict[Owning, int] = {}
    for kind, terms in ((AFFINE, spec.pod_affinity), (OPPOSED, spec.pod_anti_affinity)):
        for term in terms:
            owning = Owning(kind, term.topology_key, matcher_of(term, spec))
            found[owning] = found.get(owning, 0) + 1
    for one in spec.pods_preferred:
        kind = PREFERRED if one.weight > 0 else AVOIDED
        owning = Owning(kind, one.term.topology_key, matcher_of(one.term, spec))
        found[owning] = found.get(owning, 0) + one.weight
    return found


class Counts:
    """Counts by node and `volumes` in use, with changes on top that are not in the table."""

    def __init__(self, table_counts: I32, volumes: VolumeUses) -> None:
        self._table_counts = table_counts
        self.volumes = volumes
        self._changed: dict[int, I32] = {}
        self._changed_uses: dict[int, Uses] = {}
        self._claim_moves: dict[str, int] = {}

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return int(self._table_counts.shape[1])

    def row(self, at: int) -> I32:
        """Return one counter on every node, shape (n,). Read-only for the caller."""
        changed = self._changed.get(at)
        return self._table_counts[at] if changed is None else changed

    def each(self, at: int) -> I32:
        """Return one counter on each node, for rules that read no domain. Read-only."""
        return self.row(at)

    def number(self, among: Mask) -> int:
        """Return the number of these nodes, which are feasible."""
        return int(np.count_nonzero(among))

    def move(self, sig: "Signature", row: int, sign: int = 1) -> None:
        """Add (or remove) a pod of the signature on a node."""
        for at, amount in sig.counted:
            if at not in self._changed:
                self._changed[at] = self._table_counts[at].copy()
            self._changed[at][row] += amount * sign
        if sig.uses:
            if row not in self._changed_uses:
                self._changed_uses[row] = dict(self.volumes.rows.get(row, {}))
            add(self._changed_uses[row], sig.uses, sign)
            for _, volume in sig.uses:
                if isinstance(volume, ClaimUse) and not volume.pod:
                    moves = self._claim_moves.get(volume.name, 0)
                    self._claim_moves[volume.name] = moves + sign

    def uses(self, row: int) -> Uses:
        """Return the volumes that pods of a node use. Read-only for the caller."""
        changed = self._changed_uses.get(row)
        return self.volumes.rows.get(row, {}) if changed is None else changed

    def changed_uses(self) -> list[int]:
        """Return the nodes whose volumes in use differ from the table's."""
        return sorted(self._changed_uses)

    def rows_using(self, use: Use) -> list[int]:
        """Return the nodes with pods that use the same claim or disk, in any way."""
        place, changed = place_of(use), self._changed_uses
        more = (row for row, uses in changed.items() if place in map(place_of, uses))
        return sorted({*(row for row in self.volumes.at(use) if row not in changed), *more})

    def claim_moves(self, name: str) -> int:
        """Return the added minus the removed pods with a claim of this name, in any namespace."""
        return self._claim_moves.get(name, 0)

    def twin(self) -> "Counts":
        """Return an independent copy."""
        twin = Counts(self._table_counts, self.volumes)
        twin._changed = {at: row.copy() for at, row in self._changed.items()}
        twin._changed_uses = {row: dict(uses) for row, uses in self._changed_uses.items()}
        twin._claim_moves = dict(self._claim_moves)
        return twin


class Counters:
    """`counts` has a row for each counter in `index`, shape (counters, nodes). `version` rises
    when counters or what they match change.
    """

    def __init__(self) -> None:
        self.counts: I32 = np.zeros((0, 0), np.int32)
        self.index: dict[Counter, int] = {}
        self.version = 0
        self.moves = 0  # rises with every charge that moves a counter
        self.labels_of: NamespaceLabels = {}
        self.volumes = VolumeUses()
        self._users: dict[Counter, int] = {}  # number of signatures that use a counter by its terms
        self._across: dict[int, int] = {}  # number of signatures that read a row across nodes
        self._free: list[int] = []
        self._sigs: dict[Signature, None] = {}
        # Indexed: clusters have thousands of rules, most of them about one app.
        self._at: Places[Signature] = Places()
        self._matchings: Places[Matching] = Places()
        self._ownings: Places[Owning] = Places()

    def __bool__(self) -> bool:
        return bool(self.index)

    # ------------------------------------------------------------------------- signatures

    def add(self, sig: "Signature") -> list[tuple[int, list["Signature"]]]:
        """Add a signature. Return the new counters, with the known signatures they match: the
        caller must `count` their pods.
        """
        spec = sig.spec
        places = places_of(spec)
        self._sigs[sig] = None
        self._at.add(sig, places)
        fresh = [counter for counter in read_by(sig) if self._use(counter)]
        owned = owned_by(spec)
        for owning in owned:
            self._use(owning)
        moved = [(self.index[owning], amount) for owning, amount in owned.items()]
        moved += [
            (self.index[counter], 1)
            for counter in self._matchings.at(places)
            if counter not in fresh and counter.matches(spec, self.labels_of)
        ]
        sig.counted = tuple(moved)
        for counter in read_across_nodes(sig):
            at = self.index[counter]
            self._across[at] = self._across.get(at, 0) + 1
        return [(self.index[counter], self._matched(counter)) for counter in fresh]

    def drop(self, sig: "Signature") -> None:
        """Forget a signature without pods, and counters that only it needed."""
        del self._sigs[sig]
        self._at.drop(sig, places_of(sig.spec))
        for counter in read_across_nodes(sig):
            at = self.index[counter]
            self._across[at] -= 1
            if not self._across[at]:
                del self._across[at]
        needed: list[Counter] = [*read_by(sig), *owned_by(sig.spec)]
        for counter in needed:
            self._users[counter] -= 1
            if not self._users[counter]:
                del self._users[counter]
                self._forget(counter)

    def rematch(self, labels_of: NamespaceLabels) -> None:
        """Match every counter again after namespaces changed. All counts are 0 afterwards."""
        self.labels_of = labels_of
        self.counts[:] = 0
        self.version += 1
        self.moves += 1
        for sig in self._sigs:
            owned = owned_by(sig.spec)
            sig.counted = tuple((self.index[one], amount) for one, amount in owned.items())
        for counter in self.index:
            if isinstance(counter, Matching):
                self._matched(counter)

    def _use(self, counter: Counter) -> bool:
        """Count one more signature that needs the counter; return whether it is new."""
        self._users[counter] = self._users.get(counter, 0) + 1
        if counter in self.index:
            return False
        if not self._free:
            first = len(self.counts)
            more = np.zeros((max(8, first), self.counts.shape[1]), np.int32)
            self.counts = np.concatenate((self.counts, more))
            self._free = list(range(len(self.counts) - 1, first - 1, -1))
        self.index[counter] = self._free.pop()
        self.version += 1
        if isinstance(counter, Matching):
            self._matchings.add(counter, places_of_matcher(counter.matchers[0]))
        else:
            self._ownings.add(counter, places_of_matcher(counter.matcher))
        return True

    def _matched(self, counter: Matching) -> list["Signature"]:
        """Return the signatures that a counter matches, which move it from now on."""
        at = self.index[counter]
        there = self._at.at(places_of_matcher(counter.matchers[0]))
        found = [sig for sig in there if counter.matches(sig.spec, self.labels_of)]
        for sig in found:
            sig.counted = (*sig.counted, (at, 1))
        return found

    def _forget(self, counter: Counter) -> None:
        at = self.index.pop(counter)
        self.counts[at] = 0
        self._free.append(at)
        self.version += 1
        if isinstance(counter, Owning):
            self._ownings.drop(counter, places_of_matcher(counter.matcher))
            return
        places = places_of_matcher(counter.matchers[0])
        self._matchings.drop(counter, places)
        for sig in self._at.at(places):
            sig.counted = tuple(one for one in sig.counted if one[0] != at)

    def owned(self, kind: str, spec: PodSpec) -> list[tuple[str, int]]:
        """Return (topology key, row) of the terms of this kind that select pods of a spec."""
        if not self.index:
            return []
        return [
            (owning.topology_key, self.index[owning])
            for owning in self._ownings.at(places_of(spec))
            if owning.kind == kind and owning.matcher.matches(spec, self.labels_of)
        ]

    def are_filters_wide(self, sig: "Signature") -> bool:
        """Return whether required rules of a pod, or of others about it, read the pods of several
        nodes.
        """
        spec = sig.spec
        if not sig.is_concerned:
            return False
        opposed = (key for key, _at in self.owned(OPPOSED, spec))
        keys = (*(one.topology_key for one in spec.pod_anti_affinity), *opposed)
        hard = any(one.hard for one in sig.constraints)
        return bool(spec.pod_affinity) or hard or any(key != HOSTNAME for key in keys)

    def read_rows(self, sig: "Signature") -> set[int]:
        """Return the rows that rules of a pod, or required ones of others about it, read."""
        opposed = (at for _key, at in self.owned(OPPOSED, sig.spec))
        return {*(self.index[one] for one in read_by(sig)), *opposed}

    def sought_by(self, sigs: Iterable["Signature"]) -> set[int]:
        """Return the rows of the pods to which such pods must be near."""
        return {self.index[affinity_counter(sig)] for sig in sigs if sig.spec.pod_affinity}

    def avoided_by(self, sigs: Iterable["Signature"]) -> set[int]:
        """Return the rows of the pods from which such pods keep away, or that keep them away."""
        found: set[int] = set()
        for sig in sigs:
            terms = sig.spec.pod_anti_affinity
            found.update(
                self.index[Matching((sig.plugins.sought(one, sig.spec),))] for one in terms
            )
            found.update(at for _key, at in self.owned(OPPOSED, sig.spec))
        return found

    def is_wide(self, sig: "Signature") -> bool:
        """Return whether a pod's rules read the pods of several nodes, or those of others read it
        so.
        """
        spec = sig.spec
        if not sig.is_concerned:
            return False
        if spec.pod_affinity or any(
            one.topology_key != HOSTNAME
            for one in (*spec.pod_anti_affinity, *(one.term for one in spec.pods_preferred))
        ):
            return True
        if any(one.hard or one.topology_key != HOSTNAME for one in sig.constraints):
            return True
        if any(at in self._across for at, _amount in sig.counted):
            return True
        terms = (one for kind in KINDS for one in self.owned(kind, spec))
        return any(key != HOSTNAME for key, _at in terms)

    def moves_across_nodes(self, sig: "Signature") -> bool:
        """Return whether required rules count a pod on several nodes."""
        return any(at in self._across for at, _amount in sig.counted)

    # ------------------------------------------------------------------------------ counts

    def now(self) -> Counts:
        """Return the present counts."""
        return Counts(self.counts, self.volumes)

    def count(self, at: int, rows: I64) -> None:
        """Count pods on these rows for a new counter."""
        np.add.at(self.counts[at], rows, 1)

    def charge(self, sig: "Signature", rows: I64, sign: int) -> None:
        """Add (+1) or remove (-1) a pod of the signature on each of these rows."""
        self.charge_counts(sig, rows, sign)
        if sig.uses:
            for row in rows.tolist():
                self.volumes.charge(sig.uses, row, sign)

    def charge_counts(self, sig: "Signature", rows: I64, sign: int) -> None:
        """Add or remove such pods in the counts, but not the volumes that they use."""
        self.moves += 1
        for at, amount in sig.counted:
            np.add.at(self.counts[at], rows, amount * sign)

    def charge_one(self, sig: "Signature", row: int, sign: int) -> None:
        """Do the same as `charge` for one row."""
        self.moves += 1
        for at, amount in sig.counted:
            self.counts[at, row] += amount * sign
        if sig.uses:
            self.volumes.charge(sig.uses, row, sign)

    def grow(self, nodes: int) -> None:
        """Add rows at the end."""
        self.counts = np.concatenate(
            (self.counts, np.zeros((len(self.counts), nodes), np.int32)), axis=1
        )

    def keep(self, order: I64) -> None:
        """Reorder the rows: they become those of `order`."""
        self.counts = np.ascontiguousarray(self.counts[:, order])
        self.volumes.keep(order)

    def twin(self) -> "Counters":
        """Return the same counters with separate counts, for a trial."""
        twin = Counters()
        shared = ("index", "version", "labels_of", "_users", "_across", "_free", "_sigs")
        for name in (*shared, "_at", "_matchings", "_ownings"):
            setattr(twin, name, getattr(self, name))
        twin.counts = self.counts.copy() if self.index else self.counts
        twin.volumes = self.volumes.copy()
        return twin
