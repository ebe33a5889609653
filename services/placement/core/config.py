"""What can be tuned in placement, and the one place where it is checked."""

from msgspec import Struct

from shared.extenders.values import Extender
from shared.model.options import read_options
from shared.model.profile import V1_35, VERSIONS, Profile


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`batch` off runs every pod through the uncached single cycle. `slice_units` (about
    microseconds of work) bound one decide call. A digest is sent at most each
    `digest_quiet_ms`, unless a free amount moved by more than a `digest_share`-th of the shard.
    A pod is scheduled by the profile of its schedulerName, else by the default one. Formulas are
    those of the `compatibility` version of kube-scheduler.
    """

    batch: bool = True
    slice_units: int = 20_000
    digest_quiet_ms: int = 1_000
    digest_share: int = 64
    profiles: tuple[Profile, ...] = ()
    compatibility: str = V1_35
    extenders: tuple[Extender, ...] = ()


def parse_config(options: dict[str, object]) -> Config:
    """The options under `placement`. Raises ValueError naming the option and the rule."""
    for name in sorted(options):
        if name not in Config.__struct_fields__:
            raise ValueError(f"placement.{name}: no such option")
    config = read_options("placement", options, Config)
    for name in ("slice_units", "digest_quiet_ms", "digest_share"):
        if getattr(config, name) < 1:
            raise ValueError(f"placement.{name}: must be at least 1")
    if config.compatibility not in VERSIONS:
        raise ValueError(f"placement.compatibility: must be one of {', '.join(VERSIONS)}")
    return config
