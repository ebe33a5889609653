"""The words that name what `why` and `story` are about: [KIND/][NAMESPACE/]NAME, and the run."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from muster.cli.errors import UsageFault
from shared.events.names import KINDS

FORM = "must be [KIND/][NAMESPACE/]NAME, with a KIND of pod, gang or node"


class Subject(NamedTuple):
    """`name` may begin with its namespace. `run` None: the newest one."""

    kind: str
    name: str
    run: Path | None


def subject_of(words: Sequence[str]) -> Subject:
    """Return what the words name: `pod/NAME`, `pod NAME` as kubectl takes it, or a pod's NAME,
    each with or without a run. Raises UsageFault.
    """
    first, *others = words
    kind, slash, name = first.partition("/")
    if kind not in KINDS:
        kind, name = "pod", first
    elif not slash:
        name, *others = others or [""]
    if not all(name.split("/")):
        raise UsageFault(f"{' '.join(words)}: {FORM}")
    if len(others) > 1:
        raise UsageFault(f"{' '.join(words)}: {FORM}, and one RUN")
    return Subject(kind, name, Path(others[0]) if others else None)
