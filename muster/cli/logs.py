"""Where log lines go: the product's own to standard error, those of libraries nowhere.

Libraries' warnings repeat what our errors say in one line; --verbose shows them too.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from muster.cli.terminal import rfc3339
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


class JsonLine(logging.Formatter):
    """Formats each record as one JSON object: time, level, logger, message, and the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object as one line of ASCII."""
        value = {
            "time": rfc3339(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            value["traceback"] = self.formatException(record.exc_info)
        return json.dumps(value)


def _indented(text: str) -> str:
    lines = (one_line(line.rstrip()) for line in text.splitlines())
    return "\n".join(f"  {line}" for line in lines)


def set_up(form: str = "text") -> None:
    """Set up logging, or change its form (text or json)."""
    logging.basicConfig(handlers=[logging.NullHandler()])
    ours = logging.getLogger("muster")
    if not ours.handlers:
        ours.addHandler(logging.StreamHandler())
        ours.setLevel(logging.INFO)
        ours.propagate = False
    for handler in ours.handlers:
        handler.setFormatter(JsonLine() if form == "json" else OneLine(FORMAT))


def show_debug() -> None:
    """Show debug lines, and those of libraries."""
    ours = logging.getLogger("muster")
    ours.setLevel(logging.DEBUG)
    logging.basicConfig(level=logging.DEBUG, handlers=ours.handlers, force=True)
