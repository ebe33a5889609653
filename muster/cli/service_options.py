"""`--set service.option=value` to the services' configuration, checked before anything starts."""

import importlib
from collections.abc import Sequence
from typing import Any

from muster.cli.errors import UsageFault
from shared.adapters import bounded_yaml
from shared.events import EVENTS
from shared.simulated.config import SimConfig, parse_sim_config

CLUSTER = "cluster"
LOOKS_PER_S = 40
"""As many signatures are looked at again as messages are written again, where each pod has one."""


def parse_settings(settings: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Options by service (and `cluster`), every one known and within its bounds."""
    found: dict[str, dict[str, Any]] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        service, dot, option = name.partition(".")
        if not equals or not dot or not option:
            raise UsageFault(f"--set {setting}: must be service.option=value")
        if service not in EVENTS and service != CLUSTER:
            known = ", ".join([*EVENTS, CLUSTER])
            raise UsageFault(f"--set {setting}: {service!r} is not one of {known}")
        found.setdefault(service, {})[option] = _value(name, text)
    for service, options in found.items():
        _check(service, options)
    return found


def _value(name: str, text: str) -> Any:
    try:
        values = bounded_yaml.load_all(text)
    except bounded_yaml.BeyondBounds as error:
        raise UsageFault(f"--set {name}: {error}") from error
    except bounded_yaml.YamlError:
        return text
    return values[0] if len(values) == 1 else (text if values else None)


def _check(service: str, options: dict[str, Any]) -> None:
    try:
        if service == CLUSTER:
            parse_sim_config(options)
        else:
            importlib.import_module(f"services.{service}.core.config").parse_config(options)
    except ValueError as error:
        raise UsageFault(f"--set {error}") from error


def sim_config(settings: dict[str, dict[str, Any]], seed: int | None) -> SimConfig:
    """The simulated cluster's part of the settings."""
    options = dict(settings.get(CLUSTER, {}))
    if seed is not None:
        options.setdefault("seed", seed)
    return parse_sim_config(options)


def mesh_config(settings: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The services' part of the settings."""
    return {service: options for service, options in settings.items() if service != CLUSTER}


def of_this_version(config: dict[str, Any]) -> dict[str, Any]:
    """With what is on in new runs and was not known to older ones: their journals lack the options,
    and are replayed without.
    """
    queueing = {"gang_preemption": True, "looks_per_s": LOOKS_PER_S, **config.get("queueing", {})}
    return {**config, "queueing": queueing}
