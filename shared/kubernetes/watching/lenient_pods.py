"""Removes unreadable fields from a running pod, so that the rest of its requests still count. A
waiting pod is refused for the same field.
"""

import re
from typing import Any

from shared.kubernetes.objects.requests import GPU_MILLI

GROUPS = ("containers", "initContainers")
_PORT = re.compile(r"(\.ports\[\d+\])\..*")
_INDEX = re.compile(r"\[(\d+)\]\.?(.*)")


def take_out(pod: dict[str, Any], field: str) -> bool:
    """Remove a refused field (`spec.containers[0].resources.new`) from a pod's values. For a
    missing field the object that lacks it is removed: for part of a port, the whole port. Return
    False when nothing is left to remove.
    """
    if field == "spec.containers":
        return _without_shares(pod["spec"]) or _without_last(pod["spec"])
    holder: Any = None
    here: Any = pod
    key: Any = None
    rest = _PORT.sub(r"\1", field)
    while rest:
        found = _step(here, rest)
        if found is None:
            break
        holder, (key, rest) = here, found
        here = here[key]
    if holder is None or holder is pod:
        return False
    del holder[key]
    return True


def _step(here: Any, path: str) -> tuple[Any, str] | None:
    """Return the first key of a path and the rest; names of resources contain dots."""
    if isinstance(here, list):
        found = _INDEX.fullmatch(path)
        return (int(found[1]), found[2]) if found and int(found[1]) < len(here) else None
    if not isinstance(here, dict):
        return None
    for key in sorted(here, key=len, reverse=True):
        rest = path.removeprefix(key)
        if rest != path and (not rest or rest[0] in ".["):
            return key, rest.removeprefix(".")
    return None


def _without_shares(spec: dict[str, Any]) -> bool:
    """Keep the request for whole devices where a container asks for shares too. Return whether
    anything changed.
    """
    taken = False
    for container in (one for group in GROUPS for one in spec.get(group) or ()):
        for amounts in (container.get("resources") or {}).values():
            if isinstance(amounts, dict):
                taken |= amounts.pop(GPU_MILLI, None) is not None
    return taken


def _without_last(spec: dict[str, Any]) -> bool:
    """Remove the last container, because the sum is out of range. Return whether
    anything changed.
    """
    group = next((one for one in reversed(GROUPS) if spec.get(one)), "")
    if group:
        spec[group].pop()
    return bool(group)
