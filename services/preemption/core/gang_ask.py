"""The ask of a gang for room; see gang_preemption.py for its decisions."""

from msgspec import Struct

from services.preemption.core.transitions import GangPhase, gang_following
from shared.events.placement import PlacesFound
from shared.model.groups.topology import Path
from shared.model.ids import AskId, GangId, PodId, SignatureId

Group = tuple[SignatureId, list[PodId]]
"""(signature, pods)"""


class GangAsk(Struct):
    """One search for places for `needed` members of a gang. `groups`: (signature, pods). `asks`:
    those of the chosen members, each a preemption of its own from its nomination on. `open_shards`:
    shards that have not answered. `end`: why it must be closed. `needs_new_round`: places were
    stale, and those kept by other shards are released before the next round. `domains`: topology
    domains of the `levels` to look in, the present one first. `queue` is as in GangPreemptAsked.
    """

    ask: AskId
    gang: GangId
    needed: int
    groups: list[Group]
    phase: GangPhase = GangPhase.NEW
    rounds: int = 0
    found: dict[int, PlacesFound] = {}
    asks: list[AskId] = []
    open_shards: list[int] = []
    end: str = ""
    needs_new_round: bool = False
    levels: tuple[str, ...] = ()
    domains: list[Path] = []
    queue: str = ""

    def follow(self, event: str) -> None:
        """Apply the transition of `event`. Raises AssertionError with the story if
        there is none.
        """
        self.phase = gang_following(self.phase, event, self)

    def __str__(self) -> str:
        """Return the text for assertions."""
        return (
            f"ask {self.ask} for {self.needed} members of gang {self.gang}, round {self.rounds}, "
            f"asks of members {self.asks}, shards {self.open_shards} have not answered"
        )

    def answers(self) -> list[PlacesFound]:
        """Return the shards' answers, by shard."""
        return [self.found[shard] for shard in sorted(self.found)]
