"""Makes a case smaller while a property of it stays true; knows nothing of Kubernetes.

It leaves out parts of the JSON greedily: whole lists first, and the last items first, since pods
stand behind the nodes that they name. A needed part makes the property false when it is missing, so
it stays. Fields that an API server requires stay as well: the smallest case is still valid.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

Case = dict[str, Any]
TRIES_MAX = 2_000
KEPT = {
    *("objects", "pods", "apiVersion", "kind", "metadata", "name", "namespace", "uid", "status"),
    *("allocatable", "capacity", "phase", "nodeName", "image", "containers", "spec", "key"),
    *("containerPort", "effect", "limits"),
}


def shrunk(case: Case, holds: Callable[[Case], bool], tries_max: int = TRIES_MAX) -> Case:
    """The smallest case found for which `holds`; the given one must already."""
    assert holds(case), "the property does not hold to begin with"
    tries = 0
    smaller = True
    while smaller:
        smaller = False
        for path, first, last in list(_parts(case, ())):
            if tries == tries_max:
                return case
            candidate = _without(case, path, first, last)
            if candidate is not None:
                tries += 1
                if holds(candidate):
                    case, smaller = candidate, True
    return case


Path = tuple[str | int, ...]
Key = str | int


def _parts(value: object, path: Path) -> Iterator[tuple[Path, Key, Key]]:
    """Yield the parts that may be left out, large ones first: (path, first, last) of a list or
    mapping.
    """
    if isinstance(value, list):
        length = len(value)
        size = length
        while size >= 1:
            for first in range(length - size, -1, -size):
                yield path, first, first + size - 1
            size //= 2
        for number in range(length - 1, -1, -1):
            yield from _parts(value[number], (*path, number))
    elif isinstance(value, dict):
        yield from ((path, key, key) for key in value if key not in KEPT)
        for key in reversed(list(value)):
            yield from _parts(value[key], (*path, key))


def _without(case: Case, path: Path, first: Key, last: Key) -> Case | None:
    """Return the case without the part; None if an earlier step removed it."""
    found = copy.deepcopy(case)
    place: Any = found
    try:
        for key in path:
            place = place[key]
        if isinstance(first, int) and isinstance(last, int):
            if not place[first : last + 1]:
                return None
            del place[first : last + 1]
        else:
            del place[first]
    except (KeyError, IndexError, TypeError):
        return None
    return found
