"""The simulated cluster's own history: what really happened, for independent checkers."""

from pathlib import Path
from typing import Literal

import msgspec

from shared.adapters.run_files import writing

Kind = Literal[
    "node",
    "node-gone",
    "budget",
    "gang",
    "create",
    "bind",
    "late-bind",
    "foreign-bind",
    "object",
    "object-gone",
    "touch",
    "evict",
    "delete",
    "restore",
]


class Happened(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One change. `uid` is the object's (a gang's key), `node` a node's name if there is one;
    `detail` is the gang's key for `create`, the reason for `delete`, the name for nodes and
    budgets.
    """

    revision: int
    time_ms: int
    kind: Kind
    uid: str
    node: str = ""
    detail: str = ""


def write_history(path: Path, history: list[Happened]) -> None:
    """Write the file, replacing it. Raises NotWritten."""
    with writing(path):
        path.write_bytes(msgspec.msgpack.encode(history))


def read_history(path: Path) -> list[Happened]:
    """Return a written history. Raises ValueError naming the file when it is not one."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=list[Happened])
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: not a cluster history: {error}") from error
