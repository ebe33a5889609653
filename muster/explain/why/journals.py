"""The journals of a run: their states, each folded once, and searches for records and names."""

from typing import Any, cast

import numpy as np

from muster.app.mesh import make_core
from muster.cli.recorded_run import Recorded
from services.binding.core.pod_table import DEAD, NAMED
from services.binding.core.state import BindingState
from services.placement.core.state import PlacementState
from services.preemption.core.state import PreemptionState
from services.queueing.core.state import QueueingState
from shared.events.base import Event
from shared.events.ingest import GangSet, NodesSet, PodsNamed, SignatureDefined
from shared.events.names import column_of, holds, is_named
from shared.machine.core import Cursor
from shared.machine.fold import Folded, InputFeed, begin_step, fold, own_records
from shared.machine.reader import Reader
from shared.machine.record import all_events, events_for, own_events
from shared.model.columns import split
from shared.model.ids import (
    BINDING,
    INGEST,
    PREEMPTION,
    QUEUEING,
    GangId,
    JournalName,
    NodeId,
    PodId,
    Position,
    SignatureId,
    placement,
)
from shared.model.objects import PodSpec
from shared.replay.newest_record import Found, Holds, newest
from shared.replay.start_points import reader_at


class Journals:
    """Reads a run. Its methods raise the errors of reading journals."""

    def __init__(self, run: Recorded) -> None:
        """Read nothing yet."""
        self._run = run
        self._folds: dict[str, Folded[Any]] = {}
        self.shards = [placement(shard) for shard in range(run.placements)]

    def read_to(self) -> dict[str, int]:
        """Return how far each journal was read."""
        return {name: folded.own_reader.next for name, folded in self._folds.items()}

    def now_ms(self) -> int:
        """Return the time of the newest record that was read."""
        return max((folded.state.now_ms for folded in self._folds.values()), default=0)

    async def fold(self, journal: JournalName) -> Folded[Any]:
        """Return the fold of a whole journal, and of what its owner has still to consume: an owner
        with nothing to decide may record that much later.
        """
        if journal not in self._folds:
            core = make_core(journal, self._run.placements)
            folded, _bad = await fold(core, self._run.bus, self._run.store)
            for source in core.sources:
                cursor = folded.state.cursors[source]
                reader = Reader(source, Cursor(cursor.next, cursor.term))
                async for position, record in reader.records(self._run.bus):
                    begin_step(folded.state, record.time_ms)
                    for event in events_for(record, source, position, journal):
                        core.evolve(folded.state, event)
            self._folds[journal] = folded
        return self._folds[journal]

    async def binding(self) -> BindingState:
        """Return binding's state."""
        return cast(BindingState, (await self.fold(BINDING)).state)

    async def queueing(self) -> QueueingState:
        """Return queueing's state."""
        return cast(QueueingState, (await self.fold(QUEUEING)).state)

    async def preemption(self) -> PreemptionState:
        """Return preemption's state."""
        return cast(PreemptionState, (await self.fold(PREEMPTION)).state)

    async def placements(self) -> list[PlacementState]:
        """Return the states of all shards."""
        return [(await self.fold(name)).state for name in self.shards]

    async def state_before(self, found: Found) -> PlacementState:
        """Return a shard's state when it decided this event. Raises NeedsReset if the records
        before it were cut, and PluginMissing.
        """
        core = make_core(found.journal, self._run.placements)
        folded, _bad = await fold(core, self._run.bus, self._run.store, found.position)
        feed = InputFeed(self._run.bus, folded.state)
        async for position, record in own_records(
            folded, self._run.bus, Position(found.position + 1)
        ):
            folded.apply_causes(record, await feed.inputs(record))
            for event in own_events(record, found.journal, position):
                if event == found.event:
                    break
                core.evolve(folded.state, event)
        return cast(PlacementState, folded.state)

    async def newest(self, journal: JournalName, is_it: Holds, since_ms: int = 0) -> Found | None:
        """Return the newest record with such an event and not older than `since_ms`, if any."""
        reader: Reader = (await self.fold(journal)).own_reader
        return await newest(self._run.bus, reader, is_it, since_ms)

    async def every(self, journal: JournalName, types: tuple[type[Event], ...]) -> list[Found]:
        """Return all events of these types, oldest first."""
        stop = (await self.fold(journal)).own_reader.next
        first, _end = await self._run.bus.bounds(journal)
        reader = await reader_at(self._run.bus, journal, first)
        return [
            Found(journal, position, record.time_ms, event)
            async for position, record in reader.records(self._run.bus, stop)
            for event in all_events(record, journal, position)
            if isinstance(event, types)
        ]

    async def rows_of(self, name: str, inside: str) -> dict[str, int]:
        """Return binding's rows of the live pods of this name, by NAMESPACE/NAME: the newest of
        each. The names begin with `inside` (NAMESPACE/).
        """
        table = (await self.binding()).table
        rows: dict[str, int] = {}
        short = name.rpartition("/")[2]
        for number, chunk in table.names.items():
            known = f"{chunk.namespace}/{short}"
            if short not in chunk.names or not is_named(known, name, inside):
                continue
            places = [place for place, one in enumerate(split(chunk.names)) if one == short]
            here = np.flatnonzero(
                (table.chunks[: table.used] == number)
                & np.isin(table.places[: table.used], places)
                & (table.flags[: table.used] & (DEAD | NAMED) == NAMED)
            )
            if len(here):
                rows[known] = max(rows.get(known, -1), int(here[-1]))
        return rows

    async def pod_name(self, pod: PodId) -> str:
        """Return NAMESPACE/NAME of a live or past pod, or its number."""
        table = (await self.binding()).table
        row = table.find(pod)
        if row >= 0 and table.flags[row] & NAMED:
            chunk = table.names[int(table.chunks[row])]
            return f"{chunk.namespace}/{chunk.name_list()[int(table.places[row])]}"
        named = await self.holding(INGEST, PodsNamed, pod)
        if named is None:
            return f"pod {pod}"
        event = cast(PodsNamed, named.event)
        return f"{event.namespace}/{split(event.names)[column_of(event, 'ids').index(pod)]}"

    async def node_name(self, node: NodeId) -> str:
        """Return the name of a node that exists or existed, or its number."""
        known = (await self.binding()).node_names.get(node)
        found = None if known else await self.holding(INGEST, NodesSet, node)
        if found is None:
            return known or f"node {node}"
        event = cast(NodesSet, found.event)
        return event.nodes[column_of(event, "ids").index(node)].name

    async def gang_name(self, gang: GangId) -> str:
        """Return the key of a gang that exists or existed, or its number."""

        def is_it(event: Event) -> bool:
            return isinstance(event, GangSet) and event.gang == gang

        found = await self.newest(INGEST, is_it)
        return f"gang {gang}" if found is None else cast(GangSet, found.event).key

    async def spec(self, sig: SignatureId) -> PodSpec | None:
        """Return what a signature stands for; None if its definition was cut."""

        def is_it(event: Event) -> bool:
            return isinstance(event, SignatureDefined) and event.sig == sig

        found = await self.newest(INGEST, is_it)
        return None if found is None else cast(SignatureDefined, found.event).spec

    async def holding(
        self, journal: JournalName, kind: type[Event], number: int, column: str = "ids"
    ) -> Found | None:
        """Return the newest event of the type with the number in a packed column, if any."""
        ids = frozenset([number])
        return await self.newest(
            journal, lambda event: isinstance(event, kind) and holds(getattr(event, column), ids)
        )
