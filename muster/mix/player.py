"""Plays a mix against a target of floods, until its horizon."""

import asyncio
from dataclasses import dataclass, field

from muster.flood.targets.target import Target
from muster.mix.controllers import Controllers
from muster.mix.mix import Mix


@dataclass
class Progress:
    """How far a mix has been played."""

    now_ms: float = 0.0
    horizon_ms: float = 0.0
    running: int = 0
    waiting: int = 0


@dataclass
class Player:
    """`look_s`: controllers notice binds and ends so much later at most."""

    mix: Mix
    target: Target
    look_s: float
    controllers: Controllers = field(init=False)

    def __post_init__(self) -> None:
        """Draw the mix."""
        self.controllers = Controllers(self.mix)

    async def play(self) -> None:
        """Play until the horizon."""
        target, controllers = self.target, self.controllers
        target.start()
        while (now_ms := target.now_ms()) < self.mix.horizon_ms:
            self._look(now_ms)
            rest_s = (min(controllers.next_ms(), self.mix.horizon_ms) - now_ms) / 1000
            await asyncio.sleep(max(0.0, min(rest_s, self.look_s)))
        self._look(self.mix.horizon_ms)

    def _look(self, now_ms: float) -> None:
        for action in self.controllers.take(self.target.seen(), now_ms):
            self.target.act(action)
        for action in self.controllers.due(now_ms):
            self.target.act(action)

    def progress(self) -> Progress:
        """Return how far it is."""
        waiting = sum(one.waiting for one in self.controllers.accounts)
        now_ms = self.target.now_ms()
        return Progress(now_ms, self.mix.horizon_ms, self.controllers.running, waiting)
