"""Binding's options: what can be set, and the one line that says what is wrong with them."""

from typing import Any

import msgspec

from shared.extenders.values import Extender
from shared.model.options import read_options, require_positive
from shared.model.profile import CustomPlugin


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`effect_pods` is about how many pods one effect asks for; a request without a definite
    answer is repeated after `repeat_initial_ms`, doubling up to `repeat_max_ms`; `status_patches`
    also writes waiting pods' messages to their status, but not the same one within `fresh_ms`.
    `permit`, `pre_bind`, `bind` and `post_bind` are plugins of users, by scheduler; `binder` is the
    extender that binds pods in place of all of `bind`, `preempters` are those that say who goes.
    `cluster` is the identity of the cluster that is written to: a mesh never mixes two.
    """

    effect_pods: int = 4_096
    repeat_initial_ms: int = 100
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


def parse_config(options: dict[str, Any]) -> Config:
    """Raises ValueError naming the option and the rule it breaks."""
    config = read_options("binding", options, Config)
    require_positive("binding", config, ("effect_pods", "repeat_initial_ms"))
    if config.repeat_max_ms < config.repeat_initial_ms:
        raise ValueError("binding: repeat_max_ms must be >= repeat_initial_ms")
    return config
