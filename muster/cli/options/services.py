"""Turns `--set service.option=value` into the services' configuration, checked before anything
starts.
"""

import importlib
from collections.abc import Sequence
from typing import Any

from muster.cli.errors import UsageFault
from shared.adapters import bounded_yaml
from shared.events import EVENTS
from shared.model.options import read_options
from shared.simulated.config import SimConfig

CLUSTER = "cluster"
LOOKS_PER_S = 40
"""As many signatures are checked again as messages are written again, where each pod
has its own.
"""


def parse_settings(settings: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return options by service (and `cluster`), each known and within its bounds. Raises
    UsageFault.
    """
    found: dict[str, dict[str, Any]] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        service, dot, option = name.partition(".")
        if not equals or not dot or not option:
            rule = "must be SERVICE.OPTION=VALUE (docs/reference/options.md lists the options)"
            raise UsageFault(f"--set {setting}: {rule}")
        if service not in EVENTS and service != CLUSTER:
            known = ", ".join([*EVENTS, CLUSTER])
            raise UsageFault(f"--set {setting}: {service!r} is not one of {known}")
        found.setdefault(service, {})[option] = _value(name, text)
    for service in found:
        _check(service, found)
    return found


def _value(name: str, text: str) -> Any:
    try:
        values = bounded_yaml.load_all(text)
    except bounded_yaml.BeyondBounds as error:
        raise UsageFault(f"--set {name}: {error}") from error
    except bounded_yaml.YamlError:
        return text
    return values[0] if len(values) == 1 else (text if values else None)


def _check(service: str, settings: dict[str, dict[str, Any]]) -> None:
    is_cluster = service == CLUSTER
    module = None if is_cluster else importlib.import_module(f"services.{service}.core.config")
    try:
        read_options(service, settings, SimConfig if module is None else module.Config)
    except ValueError as error:
        raise UsageFault(f"--set {error}") from error


def sim_config(settings: dict[str, dict[str, Any]], seed: int | None) -> SimConfig:
    """Return the simulated cluster's settings."""
    seeded = {} if seed is None else {"seed": seed}
    return read_options(CLUSTER, {CLUSTER: seeded | settings.get(CLUSTER, {})}, SimConfig)


def mesh_config(settings: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the services' settings."""
    return {service: options for service, options in settings.items() if service != CLUSTER}


def of_this_version(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with options that are on in new runs. Older journals lack the
    options and are replayed without them.
    """
    queueing = {"gang_preemption": True, "looks_per_s": LOOKS_PER_S, **config.get("queueing", {})}
    return {**config, "queueing": queueing}
