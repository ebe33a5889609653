"""Binding's options and their bounds."""

import msgspec

from shared.extenders.values import Extender
from shared.model.options import Positive
from shared.model.profile import CustomPlugin


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Binding's options.

    `effect_pods`: roughly the pods per effect. A request without a definite answer is repeated
    after `repeat_initial_ms`, doubling up to `repeat_max_ms`. `status_patches` writes waiting pods'
    messages to their status, but the same message only once in `fresh_ms`. `permit`, `pre_bind`,
    `bind` and `post_bind`: users' plugins, by scheduler. `binder`: the extender that binds pods
    instead of all `bind` plugins. `preempters`: extenders that choose victims. `cluster`: the
    identity of the cluster that is written to; a mesh never mixes two.
    """

    effect_pods: Positive = 4_096
    repeat_initial_ms: Positive = 100
    repeat_max_ms: int = 5_000
    status_patches: bool = False
    fresh_ms: int = 15_000
    permit: dict[str, tuple[CustomPlugin, ...]] = {}
    pre_bind: dict[str, tuple[CustomPlugin, ...]] = {}
    bind: dict[str, tuple[CustomPlugin, ...]] = {}
    post_bind: dict[str, tuple[CustomPlugin, ...]] = {}
    binder: Extender | None = None
    preempters: tuple[Extender, ...] = ()
    cluster: str = ""

    def __post_init__(self) -> None:
        if self.repeat_max_ms < self.repeat_initial_ms:
            raise ValueError("repeat_max_ms must be >= repeat_initial_ms")
