"""Files of a run that cannot be written are told in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NotWritten(Exception):
    """A file could not be written (the disk is full, mostly); the message names it."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the operating system's errors into ours."""
    try:
        yield
    except OSError as error:
        raise NotWritten(
            f"{path}: cannot be written: {error.strerror}; start again when it can be"
        ) from error
