"""How a simulated cluster behaves: pace, delays and seeded failures. No behaviour of its own."""

from typing import Any

import msgspec

RATES = (
    *("lost_response", "lost_request", "late", "refused", "busy", "foreign", "watch_break"),
    "volume_failure",
)


class SimConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`speed` scales the world's arrivals and lifetimes (2 = twice as fast; 0 = every arrival at
    once, lifetimes unscaled). Rates are probabilities per request (`foreign` per created pod,
    `watch_break` per delivery): `lost_response` commits but answers UNKNOWN, `lost_request` does
    not commit and answers UNKNOWN, `late` answers UNKNOWN and commits up to `late_ms` later. A
    claim is bound `volume_ms` after its volume or node was chosen; `volume_failure` = none is made.
    """

    seed: int = 0
    identity: str = ""
    speed: float = 1.0
    latency_ms: int = 0
    watch_latency_ms: int = 0
    grace_ms: int = 0
    late_ms: int = 2_000
    foreign_ms: int = 200
    pod_gc_ms: int = 500
    keep_deliveries: int = 100_000
    lost_response: float = 0.0
    lost_request: float = 0.0
    late: float = 0.0
    refused: float = 0.0
    busy: float = 0.0
    foreign: float = 0.0
    watch_break: float = 0.0
    volume_ms: int = 200
    volume_failure: float = 0.0

    def fails(self) -> bool:
        """Whether any request may fail on purpose."""
        return any((self.lost_response, self.lost_request, self.late, self.refused, self.busy))


def parse_sim_config(options: dict[str, Any]) -> SimConfig:
    """Raises ValueError naming the option and the rule it breaks."""
    try:
        config = msgspec.convert(options, SimConfig, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"cluster: {error}") from error
    for name in RATES:
        if not 0.0 <= getattr(config, name) <= 1.0:
            raise ValueError(f"cluster: {name} must be between 0 and 1")
    for name in config.__struct_fields__:
        if (name.endswith("_ms") or name == "speed") and getattr(config, name) < 0:
            raise ValueError(f"cluster: {name} must be >= 0")
    if config.keep_deliveries < 1:
        raise ValueError("cluster: keep_deliveries must be >= 1")
    return config
