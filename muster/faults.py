"""How a command ends badly: one line on standard error, and an exit code."""

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class Fault(Exception):
    """A failure that the user is told of in one line."""

    code = EXIT_FAILURE

    def __init__(self, text: str) -> None:
        """Line breaks become blanks."""
        super().__init__(" ".join(text.split()))


class UsageFault(Fault):
    """Input or an option that cannot be used; nothing was started or changed."""

    code = EXIT_USAGE
