"""Where log lines go: the product's own to standard error, those of libraries nowhere.

Libraries' warnings repeat what our errors say in one line; MUSTER_LOG=debug shows them too.
"""

import logging
import os
from typing import Any

from shared.model.text import one_line

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class OneLine(logging.Formatter):
    """Formats each record as one printable line, whatever text from outside it holds. The lines of
    a traceback begin with blanks, so that none looks like a record.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the record's own line."""
        return one_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        """Return a traceback."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        """Return a stack."""
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    lines = (one_line(line.rstrip()) for line in text.splitlines())
    return "\n".join(f"  {line}" for line in lines)


def set_up() -> None:
    """Set up logging, once per process, before anything runs."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine(FORMAT))
    if os.environ.get("MUSTER_LOG", "").lower() == "debug":
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])
        return
    logging.basicConfig(handlers=[logging.NullHandler()])
    ours = logging.getLogger("muster")
    if not ours.handlers:
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)
        ours.propagate = False
