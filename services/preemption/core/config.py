"""Preemption's options and their bounds."""

from shared.model.options import Positive
from shared.model.release import ReleaseOptions

KINDS_MAX = 8  # signatures whose dry runs go on in parallel


class Config(ReleaseOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Preemption's options. `rounds_max`: dry runs per ask. `victims_ms_max`: how long a victim may
    stay after its eviction before the nomination is given up; longer than usual grace periods,
    since the first pod to come gets the room then. `place_ms_max`: how long a freed place is kept.
    """

    rounds_max: Positive = 3
    victims_ms_max: Positive = 600_000
    place_ms_max: Positive = 60_000
