"""A gang's own nominated places, as its offers and holds see them.

Any member may use a place of the gang. Members are tried first in places made for their signature,
each place once. The other places of the gang do not block its members, but block all other pods.
"""

from services.placement.core.books.charges import compiled
from services.placement.core.preemption import in_order, nominations
from services.placement.core.state import Nomination, PlacementState
from shared.model.ids import AskId, AttemptId, GangId, NodeId, SignatureId
from shared.scheduling.cycle.kernel import as_picks
from shared.scheduling.table.layout import NominatedPods
from shared.scheduling.table.picks import Picks
from shared.scheduling.table.table import NodeTable


class GangPlaces:
    """The places kept for a gang in this shard while its members are tried; `key` is
    the attempt's.
    """

    def __init__(self, state: PlacementState, gang: GangId, attempt: AttemptId) -> None:
        """Start with all places untried."""
        self.key = (gang, attempt)
        self._state, self._gang = state, gang
        self._tried: set[AskId] = set()
        known = nominations.of_gang(state, gang)
        self.is_some = any(one.counts for one in known)
        self._are_joint = in_order.are_joint(state, (one.sig for one in known))

    def nominated_pods(self, sig: SignatureId, one_by_one: bool = False) -> NominatedPods | None:
        """Return the nominations that a member must leave room for: those of other pods, and the
        gang's own places that no member was tried in yet. What the gang keeps for lost members
        does not keep members off that are placed `one_by_one`: they may be unlike those.
        """
        state = self._state
        if not state.nominations:
            return None
        if not self.is_some:
            spec = state.specs[sig]
            return nominations.nominated_pods_for(state, spec.priority, queue=spec.queue)
        known = [one for _ask, one in sorted(state.nominations.items())]
        if one_by_one:
            known = [one for one in known if not (one.until_ms and one.gang == self._gang)]
        return self._nominated_pods(sig, known)

    def _nominated_pods(self, sig: SignatureId, known: list[Nomination]) -> NominatedPods:
        """Return these nominations; the gang's own count whatever their priority."""
        state, spec = self._state, self._state.specs[sig]
        found: nominations.NewNominatedPods = {}
        for one in known:
            is_own = one.gang == self._gang
            if is_own and one.ask in self._tried:
                continue
            is_before = is_own or nominations.is_before(state, one, spec.priority, spec.queue)
            if one.counts and is_before:
                found.setdefault(one.node, []).append((compiled(state, one.sig), one.mask))
        return found

    def place_members(self, trial: NodeTable, sig: SignatureId, count: int) -> list[Picks]:
        """Place up to `count` members of a signature in places made for it, charged on
        the trial.
        """
        state, picks = self._state, list[Picks]()
        for one in nominations.of_gang(state, self._gang):
            if len(picks) == count:
                break
            is_open = one.counts and one.ask not in self._tried
            if not is_open or not nominations.are_alike(state, one.sig, sig):
                continue
            row = trial.row_of(one.node)
            if row is not None and trial.within is not None and not trial.within[row]:
                continue
            self._tried.add(one.ask)
            if row is None:
                continue
            nominated_pods = self._nominated_pods(sig, self._beside(one.node))
            wanted = compiled(state, sig)
            pick = as_picks(wanted, state.kernel.place_on(trial, wanted, row, nominated_pods))
            if len(pick.rows):
                trial.charge(wanted, pick.rows, pick.masks)
                picks.append(pick)
        return picks

    def _beside(self, node: NodeId) -> list[Nomination]:
        """Return the nominations on a node that a member in a place of the gang must leave room
        for: joint places were found one after the other.
        """
        known = nominations.nominations_on(self._state, node)
        return [one for one in known if one.gang != self._gang] if self._are_joint else known
