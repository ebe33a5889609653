"""The shell of placement: asks the extenders of the configuration in force."""

import asyncio
import logging

from shared.events.base import Event
from shared.events.observed import ExtendersAnswered
from shared.events.placement import ExtendersAsked
from shared.extenders.port import Judgement, Judges
from shared.extenders.values import name_of
from shared.machine.runtime import Offers
from shared.model.columns import pack, unpack

log = logging.getLogger("muster.placement")


class PlacementShell:
    """One ownership's questions. A new owner asks anew what was not answered: asking changes
    nothing.
    """

    def __init__(self, judges: Judges) -> None:
        """Nothing happens before `start`."""
        self._judges = judges
        self._owner: Offers | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, owner: Offers) -> None:
        """An open question follows by `effect`."""
        self._owner = owner

    def effect(self, effect_id: int, effect: Event) -> None:
        """Ask about one pod; what was asked before is not waited for any more."""
        assert isinstance(effect, ExtendersAsked), f"effect {effect_id}: {effect}"
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(self._ask(effect))

    async def stop(self) -> None:
        """Offer nothing any more."""
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
        said = Judgement()
        if spec is not None:
            try:
                said = await self._judges.judge(
                    state.config.extenders, *name_of(spec), tuple(numbers)
                )
            except Exception as error:
                log.exception("extenders could not be asked")
                said = Judgement(error=repr(error))
        if self._owner is None:
            return
        self._owner.offer(
            ExtendersAnswered(
                ask=asked.ask,
                nodes=pack([numbers[name] for name in said.nodes]),
                scores=pack(said.scores) if any(said.scores) else b"",
                failed=said.failed,
                resolvable=said.resolvable,
                error=said.error,
                pod=asked.pod,
            )
        )
