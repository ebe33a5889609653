"""Placement's options and their bounds."""

from shared.extenders.values import Extender
from shared.model.options import Positive
from shared.model.profile import Profile
from shared.model.release import ReleaseOptions


class Config(ReleaseOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Placement's options.

    `batch` off runs every pod through the uncached single cycle. `slice_units` (about microseconds
    of work) bound one decide call. A digest is sent at most each `digest_quiet_ms`, unless a free
    amount moved by more than a `digest_share`-th of the shard. A pod is scheduled by the profile of
    its schedulerName, else by the default one. `compatibility` and `feature_gates`: the
    kube-scheduler whose rules apply, here and in queueing and preemption alike.
    """

    batch: bool = True
    slice_units: Positive = 20_000
    digest_quiet_ms: Positive = 1_000
    digest_share: Positive = 64
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[Extender, ...] = ()
