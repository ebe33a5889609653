"""Places of gang members that depend on each other: checked together, one after the other.

A place of a member with rules over several nodes, or with volumes to choose, is good only with the
places before it. So the places of such a gang are joint: they are checked in the order in which its
members are tried later (gangs/nominated_places.py), by groups, then by asks. Places of other pods
count on their nodes, as always; the gang's later places do not count.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from services.placement.core.books.charges import compiled
from services.placement.core.books.ledger import IS_VICTIM, groups
from services.placement.core.gangs import member_choices
from services.placement.core.gangs.trial_picks import with_nominated_pods
from services.placement.core.preemption import nominations
from services.placement.core.state import Nomination, PlacementState
from services.placement.core.volumes import reservations
from shared.model.ids import NO_POD, GangId, PodId, SignatureId
from shared.scheduling.cycle.inter_pod_rules import fits
from shared.scheduling.cycle.one_node import one_node
from shared.scheduling.cycle.score_classes import static_of
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.layout import NominatedPods


class MemberRow(NamedTuple):
    """A member's place in a trial: the row of its node."""

    sig: SignatureId
    row: int


def are_joint(state: PlacementState, sigs: Iterable[SignatureId]) -> bool:
    """Return whether places of such members depend on places on other nodes."""
    return state.shards == 1 and any(is_joint(state, sig) for sig in sigs)


def is_joint(state: PlacementState, sig: SignatureId) -> bool:
    """Return whether a place for such a pod depends on the pods of several nodes, or on volumes
    that other members may get.
    """
    is_wide = state.table.counters.are_filters_wide(compiled(state, sig))
    return is_wide or reservations.chooses(state, sig)


class Trial:
    """Copies of the nodes from which pods are taken and put back while a gang's places are tried.
    `gang`: its nominations do not count. Pods that leave for nominations have left.
    """

    def __init__(self, state: PlacementState, gang: GangId) -> None:
        """Start without places."""
        self.state = state
        self.table = state.table.trial()
        known = sorted(state.nominations.items())
        self._others = [one for _ask, one in known if one.gang != gang]
        self._nominated_pods: dict[tuple[int, str], NominatedPods] = {}
        self.move(sorted(state.victims_of), -1)

    def nominated_pods(self, sig: SignatureId) -> NominatedPods:
        """Return the nominations that such a member must leave room for."""
        return self._nominated(self.state.specs[sig].priority, self.state.specs[sig].queue)

    def _nominated(self, priority: int, queue: str) -> NominatedPods:
        key = priority, queue
        if key not in self._nominated_pods:
            found = nominations.as_nominated_pods(
                self._others, self.state, priority, NO_POD, queue=queue
            )
            self._nominated_pods[key] = found
        return self._nominated_pods[key]

    def move(self, pods: Iterable[PodId], sign: int) -> None:
        """Take running pods away (-1) or put them back (1)."""
        state, ledger = self.state, self.state.ledger
        at = np.array([ledger.row(pod) for pod in pods], np.int64)
        at = at[IS_VICTIM[ledger.kind[at]]]
        for sig, part in groups(ledger.sig[at]):
            chosen = at[part]
            rows = self.table.rows_of(ledger.node[chosen].tolist())
            self.table.charge(compiled(state, sig), rows, ledger.devices[chosen], sign)

    def all_fit(self, members: Sequence[MemberRow]) -> bool:
        """Return whether members fit in these places, each beside those before it, and also once
        the pods that are nominated on any node run there. The trial is unchanged afterwards.
        """
        if not self._each_fits(members):
            return False
        specs = [self.state.specs[member.sig] for member in members]
        lowest = min((spec.priority for spec in specs), default=0)
        nominated = self._nominated(lowest, specs[0].queue if specs else "")
        if not any(sig.counted for pods in nominated.values() for sig, _mask in pods):
            return True
        with with_nominated_pods(self.table, nominated):
            return self._each_fits(members, are_nominated_placed=True)

    def _each_fits(self, members: Sequence[MemberRow], are_nominated_placed: bool = False) -> bool:
        done: list[tuple[MemberRow, int]] = []
        with member_choices.assumed_on_trial(self.state) as assumed:
            for member in members:
                nominated = {} if are_nominated_placed else self.nominated_pods(member.sig)
                mask = self._devices_for(member, nominated)
                if mask is None:
                    break
                self.table.charge_one(compiled(self.state, member.sig), member.row, mask)
                member_choices.assume_choices(self.state, member.sig, member.row, assumed)
                done.append((member, mask))
        for member, mask in reversed(done):
            self.table.charge_one(compiled(self.state, member.sig), member.row, mask, -1)
        return len(done) == len(members)

    def _devices_for(self, member: MemberRow, nominated: NominatedPods) -> int | None:
        """Return the devices of a member that fits in this place, or None."""
        wanted = compiled(self.state, member.sig)
        static = static_of(self.table, wanted.spec, wanted.plugins).ok
        if static is not None and not static[member.row]:
            return None
        node = one_node(self.table, member.row, nominated)
        return node.pick_devices(wanted) if fits(self.table, wanted, node) else None


class Reprieve:
    """Puts pods back into a trial beside members in their places. Most pods are no concern of the
    members' rules, so that their nodes alone decide. The others are put back in ever smaller parts.
    """

    def __init__(self, trial: Trial, members: Sequence[MemberRow]) -> None:
        self._trial, self._members, self._state = trial, members, trial.state
        self._at: dict[int, list[MemberRow]] = {}
        for member in members:
            self._at.setdefault(member.row, []).append(member)
        sigs = sorted({member.sig for member in members})
        read_rows = self._state.table.counters.read_rows
        self._read = set[int]().union(*(read_rows(compiled(self._state, sig)) for sig in sigs))

    def stay(self, pods: Sequence[PodId]) -> bool:
        """Put pods back if their nodes have room for them besides the members; return whether."""
        self._trial.move(pods, 1)
        nodes = (self._state.ledger.node_at(self._state.ledger.row(pod)) for pod in pods)
        rows = set(self._trial.table.rows_of(nodes).tolist())
        if all(self._has_room(row) for row in sorted(rows & self._at.keys())):
            return True
        self._trial.move(pods, -1)
        return False

    def settle(self, parts: Sequence[Sequence[PodId]]) -> list[int] | None:
        """Return which of these parts, which are back, must leave after all, and take them away;
        None if the members do not fit even then.
        """
        if self._trial.all_fit(self._members):
            return []
        read = [at for at, pods in enumerate(parts) if any(map(self._is_read, pods))]
        self._trial.move([pod for at in read for pod in parts[at]], -1)
        return self._refused(read, parts) if self._trial.all_fit(self._members) else None

    def retry(self, parts: Sequence[Sequence[PodId]]) -> list[int]:
        """Put back which of these parts fit after all, once others have left for the rules; return
        their numbers.
        """
        stay: list[int] = []
        before = -1
        while len(stay) > before:
            before = len(stay)
            for at, pods in enumerate(parts):
                if at not in stay and self.stay(pods):
                    if not any(map(self._is_read, pods)) or self._trial.all_fit(self._members):
                        stay.append(at)
                    else:
                        self._trial.move(pods, -1)
        return stay

    def _refused(self, numbers: list[int], parts: Sequence[Sequence[PodId]]) -> list[int]:
        """Put back what fits of these parts; return the numbers of the others."""
        pods = [pod for at in numbers for pod in parts[at]]
        self._trial.move(pods, 1)
        if self._trial.all_fit(self._members):
            return []
        self._trial.move(pods, -1)
        if len(numbers) == 1:
            return numbers
        middle = len(numbers) // 2
        first = self._refused(numbers[:middle], parts)
        return first + self._refused(numbers[middle:], parts)

    def _is_read(self, pod: PodId) -> bool:
        """Return whether members' rules may read this pod."""
        one = compiled(self._state, self._state.ledger.sig_at(self._state.ledger.row(pod)))
        return bool(one.uses) or any(at in self._read for at, _ in one.counted)

    def _has_room(self, row: int) -> bool:
        """Return whether a node has room for its members by amounts, devices and ports."""
        before: list[tuple[Signature, int]] = []
        for member in self._at[row]:
            wanted = compiled(self._state, member.sig)
            node = one_node(self._trial.table, row, self._trial.nominated_pods(member.sig))
            for other, mask in before:
                node.add(other, mask)
            if not node.fits(wanted):
                return False
            before.append((wanted, node.pick_devices(wanted)))
        return True


def still_fit(state: PlacementState, gang: GangId, places: Sequence[Nomination]) -> bool:
    """Return whether the gang's joint places suffice once the victims are gone. While members hold
    some of them, permit's attempt decides.
    """
    if any(one.is_used for one in places):
        return True
    trial = Trial(state, gang)
    rows = [trial.table.row_of(one.node) for one in places]
    members = [
        MemberRow(one.sig, row) for one, row in zip(places, rows, strict=True) if row is not None
    ]
    return len(members) == len(places) and trial.all_fit(members)
