"""Reads options, named on a command line or in a journal, into the Config that has their bounds."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from shared.model.text import did_you_mean

C = TypeVar("C", bound=msgspec.Struct)
Positive = Annotated[int, msgspec.Meta(ge=1)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
UNKNOWN = "Object contains unknown field "


def read_options(service: str, options: Mapping[str, Mapping[str, Any]], into: type[C]) -> C:
    """Return a service's options as `into`. Raises ValueError naming the option and the rule."""
    try:
        return msgspec.convert(options.get(service, {}), into)
    except msgspec.ValidationError as error:
        rule, _, option = str(error).partition(" - at `$")
        if rule.startswith(UNKNOWN):
            name = rule.removeprefix(UNKNOWN).strip("`")
            known = () if option else into.__struct_fields__
            listed = f"; the options are {', '.join(known)}" if known else ""
            rule = f"unknown option{did_you_mean(name, known) or listed}"
            option = f"{option}.{name}"
        raise ValueError(f"{service}{option.replace('`', '')}: {rule}") from error
