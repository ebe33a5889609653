"""Permit's options and their bounds."""

from msgspec import Struct

from shared.model.options import Positive


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """Permit's options. `plans_max`: plans in one attempt. `step_pods_max`: members examined in one
    decide call, which bounds its time.
    """

    plans_max: Positive = 2
    step_pods_max: Positive = 20_000
