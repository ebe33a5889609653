"""Reads a service's options into its Config; which bounds hold beyond types is its own business."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

C = TypeVar("C", bound=msgspec.Struct)


def read_options(service: str, options: Mapping[str, Any], into: type[C]) -> C:
    """The options as `into`. Raises ValueError naming the option and the rule it breaks."""
    try:
        return msgspec.convert(options, into)
    except msgspec.ValidationError as error:
        raise ValueError(f"{service}: {error}") from error


def require_positive(service: str, config: msgspec.Struct, names: Iterable[str]) -> None:
    """Raises ValueError for the first of these options that is below 1."""
    for name in names:
        if getattr(config, name) < 1:
            raise ValueError(f"{service}: {name} must be >= 1, is {getattr(config, name)}")
