"""A gang's own nominations, as its offers and holds see them: room of its members, whoever of them
takes it. They are tried where room was made for one like them first, each place once; the rest of
the gang's places are in the way of no member of theirs, and of all others.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from services.placement.core.books.charges import compiled
from services.placement.core.placing.cycle import Chosen, place_there
from services.placement.core.preemption import nominations
from services.placement.core.state import Nomination, PlacementState
from shared.scheduling.table.layout import Held
from shared.scheduling.table.table import NodeTable


@contextmanager
def holding(trial: NodeTable, held: Held) -> Iterator[None]:
    """Nominations charged on the trial meanwhile: a trial has no trials."""
    known = [node for node in sorted(held) if trial.row_of(node) is not None]
    pods = [(trial.rows_of([node]), *one) for node in known for one in held[node]]
    for row, other, mask in pods:
        trial.charge(other, row, np.array([mask], np.int64))
    yield
    for row, other, mask in pods:
        trial.charge(other, row, np.array([mask], np.int64), -1)


class OwnRoom:
    """Places kept for a gang in this shard, while its members are tried on a trial; `key` is the
    attempt's.
    """

    def __init__(self, state: PlacementState, gang: int, attempt: int) -> None:
        """All of them are there to be taken."""
        self.key = (gang, attempt)
        self._state, self._gang = state, gang
        self._tried: set[int] = set()  # asks
        self.is_some = any(one.counts for one in nominations.of_gang(state, gang))

    def held(self, sig: int) -> Held | None:
        """What a member must leave room for: nominations of others, and the gang's own places that
        nobody was tried in yet.
        """
        state = self._state
        if not state.nominations:
            return None
        if not self.is_some:
            return nominations.held_against(state, state.specs[sig].priority)
        return self._held(sig, [one for _ask, one in sorted(state.nominations.items())])

    def _held(self, sig: int, known: list[Nomination]) -> Held:
        """Of these. The gang's own count whatever their priority."""
        state, priority = self._state, self._state.specs[sig].priority
        found: nominations.NewHeld = {}
        for one in known:
            is_own = one.gang == self._gang
            if is_own and one.ask in self._tried:
                continue
            if one.counts and (is_own or state.specs[one.sig].priority >= priority):
                found.setdefault(one.node, []).append((compiled(state, one.sig), one.mask))
        return found

    def take(self, trial: NodeTable, sig: int, count: int) -> list[Chosen]:
        """Up to `count` members of a signature in places made for such, charged on the trial."""
        state, picks = self._state, list[Chosen]()
        for one in nominations.of_gang(state, self._gang):
            if len(picks) == count:
                break
            is_open = one.counts and one.ask not in self._tried
            if not is_open or not nominations.are_alike(state, one.sig, sig):
                continue
            self._tried.add(one.ask)
            row = trial.row_of(one.node)
            if row is None:
                continue
            held = self._held(sig, nominations.on(state, one.node))
            pick = place_there(trial, compiled(state, sig), row, held)
            if len(pick.rows):
                trial.charge(compiled(state, sig), pick.rows, pick.masks)
                picks.append(pick)
        return picks
