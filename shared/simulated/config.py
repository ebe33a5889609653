"""Settings of a simulated cluster: speed, delays and seeded failures."""

from typing import Annotated

import msgspec

from shared.model.options import Natural, Positive

Rate = Annotated[float, msgspec.Meta(ge=0, le=1)]


class SimConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`speed` scales the world's arrivals and lifetimes (2 = twice as fast; 0 = every arrival at
    once, lifetimes unscaled). Rates are probabilities per request (`foreign` per created pod,
    `watch_break` per delivery): `lost_response` commits and answers UNKNOWN, `lost_request` does
    not commit and answers UNKNOWN, `late` answers UNKNOWN and commits up to `late_ms` later. A
    claim is bound `volume_ms` after its volume or node was chosen; `volume_failure`: no volume is
    made, or the write of a resource claim is refused, comes late, or its answer is lost.
    """

    seed: int = 0
    identity: str = ""
    speed: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    latency_ms: Natural = 0
    watch_latency_ms: Natural = 0
    grace_ms: Natural = 0
    late_ms: Natural = 2_000
    foreign_ms: Natural = 200
    pod_gc_ms: Natural = 500
    keep_deliveries: Positive = 100_000
    lost_response: Rate = 0.0
    lost_request: Rate = 0.0
    late: Rate = 0.0
    refused: Rate = 0.0
    busy: Rate = 0.0
    foreign: Rate = 0.0
    watch_break: Rate = 0.0
    volume_ms: Natural = 200
    volume_failure: Rate = 0.0

    def fails(self) -> bool:
        """Return whether any request may fail on purpose."""
        return any((self.lost_response, self.lost_request, self.late, self.refused, self.busy))
