"""How a command ends badly: one line on standard error, and an exit code."""

from shared.model.text import one_line

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class Fault(Exception):
    """A failure that the user is told of in one line."""

    code = EXIT_FAILURE

    def __init__(self, text: str) -> None:
        """The text is made one printable line."""
        super().__init__(one_line(text))


class UsageFault(Fault):
    """Input or an option that cannot be used; nothing was started or changed."""

    code = EXIT_USAGE
