"""Placement's shell: calls the extenders of the present configuration."""

import asyncio
import logging

from shared.events.base import Event
from shared.events.observed import ExtendersAnswered
from shared.events.placement import ExtendersAsked
from shared.extenders.port import ExtenderCalls, NodesLeft
from shared.extenders.values import name_of
from shared.machine.runtime import OwnerPort
from shared.model.columns import pack, unpack
from shared.model.ids import EffectId

log = logging.getLogger("muster.placement")


class PlacementShell:
    """The extender calls of one owner. A new owner repeats the unanswered ones: a call changes
    nothing.
    """

    def __init__(self, extender_calls: ExtenderCalls) -> None:
        """Do nothing before `start`."""
        self._judges = extender_calls
        self._owner: OwnerPort | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, owner: OwnerPort) -> None:
        """Start; open calls follow through `effect`."""
        self._owner = owner

    def effect(self, effect_id: EffectId, effect: Event) -> None:
        """Call extenders about one pod and drop the call before."""
        assert isinstance(effect, ExtendersAsked), f"effect {effect_id}: {effect}"
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(self._ask(effect))

    async def stop(self) -> None:
        """Stop submitting answers."""
        self._owner = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _ask(self, asked: ExtendersAsked) -> None:
        assert self._owner is not None
        state = self._owner.state
        known = [number for number in unpack(asked.nodes).tolist() if number in state.nodes]
        numbers = {state.nodes[number].name: number for number in known}
        spec = state.specs.get(asked.sig)
        nodes_left = NodesLeft()
        if spec is not None:
            try:
                nodes_left = await self._judges.filter_and_score(
                    state.config.extenders, *name_of(spec), tuple(numbers)
                )
            except Exception as error:
                log.exception("extenders could not be asked")
                nodes_left = NodesLeft(error=repr(error))
        if self._owner is None:
            return
        self._owner.submit(
            ExtendersAnswered(
                ask=asked.ask,
                nodes=pack([numbers[name] for name in nodes_left.nodes]),
                scores=pack(nodes_left.scores) if any(nodes_left.scores) else b"",
                failed=nodes_left.failed,
                resolvable=nodes_left.resolvable,
                error=nodes_left.error,
                pod=asked.pod,
            )
        )
