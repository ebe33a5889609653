"""Columns: the packed form in which many pods cross the mesh.

An id column is little-endian int64 in one `bytes`; a name column is one string joined by newlines
(Kubernetes names and uids cannot hold one). Packing 1,000 ids costs under a microsecond, so the
price of a pod is its bytes and not its objects. Nothing here knows what the columns mean.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
Totals = NDArray[np.signedinteger[Any]]

INT64 = np.dtype("<i8")
INT16 = np.dtype("<i2")
ID_BYTES = 8  # of one value in an int64 column
TOTAL_BYTES = 2  # of one total where the weights allow it
FEW_MAX = 8
_FEW = [Struct(f"<{count}q") for count in range(FEW_MAX + 1)]


def pack(values: I64 | Sequence[int] | Iterable[int]) -> bytes:
    """Return one int64 column, shape (n,), as bytes."""
    if isinstance(values, np.ndarray):
        return values.astype(INT64, copy=False).tobytes()
    if isinstance(values, list) and len(values) <= FEW_MAX:  # a quarter of an array's cost
        return _FEW[len(values)].pack(*values)
    return np.fromiter(values, INT64).tobytes()


def unpack(column: bytes) -> I64:
    """Return the read-only int64 array, shape (n,), over a packed column."""
    return np.frombuffer(column, INT64)


def as_numbers(column: bytes) -> Sequence[Any]:
    """Return the values of a column as plain numbers: up to FEW_MAX of them cost a quarter of an
    array.
    """
    count = len(column) >> 3
    return _FEW[count].unpack(column) if count <= FEW_MAX else unpack(column).tolist()


def gathered(parts: Iterable[int | I64]) -> bytes:
    """Return ids, gathered one by one or as columns, as one packed column."""
    return b"".join(
        pack(part) if isinstance(part, np.ndarray) else part.to_bytes(8, "little") for part in parts
    )


def pack_totals(values: Totals) -> bytes:
    """Return one column of totals, shape (n,), as bytes: of 16 or 64 bits each, as given."""
    return values.astype(INT16 if values.itemsize == TOTAL_BYTES else INT64, copy=False).tobytes()


def unpack_totals(column: bytes, count: int) -> Totals:
    """Return the read-only array, shape (count,), over a packed column; its length
    shows the width.
    """
    return np.frombuffer(column, INT64 if len(column) == ID_BYTES * count else INT16)


def size(column: bytes) -> int:
    """Return how many values a packed int64 column has."""
    return len(column) >> 3


def join(names: Iterable[str]) -> str:
    """Return one name column; an empty column is the empty string, so names must not be empty."""
    return "\n".join(names)


def split(column: str) -> list[str]:
    """Return the names of a joined column."""
    return column.split("\n") if column else []


def has_repeats(ids: I64) -> bool:
    """Return whether a value occurs twice. Sorting costs a tenth of numpy's unique."""
    if len(ids) < 2:
        return False
    ordered = np.sort(ids)
    return bool(np.count_nonzero(ordered[1:] == ordered[:-1]))
