"""Reports a run file that cannot be written in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NotWritten(Exception):
    """A file could not be written (usually a full disk); the message names it."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the operating system's errors into NotWritten."""
    try:
        yield
    except OSError as error:
        raise NotWritten(
            f"{path}: cannot be written: {error.strerror}; start again when it can be"
        ) from error
