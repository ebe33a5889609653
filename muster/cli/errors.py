"""Errors of commands: one line on standard error, and an exit code."""

from collections.abc import Sequence

from shared.model.text import one_line

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class Fault(Exception):
    """A failure that the user sees as one line."""

    code = EXIT_FAILURE

    def __init__(self, text: str) -> None:
        """Turn the text into one printable line."""
        super().__init__(one_line(text))


class UsageFault(Fault):
    """Input or an option that cannot be used; nothing was started or changed."""

    code = EXIT_USAGE


def one_of(name: str, value: str, known: Sequence[str]) -> str:
    """Return the value of an option. Raises UsageFault when it is not known."""
    if value not in known:
        raise UsageFault(f"{name} {value}: must be one of {', '.join(known)}")
    return value


def exit_code(error: Exception) -> int | None:
    """Return the exit code for an error whose text is enough for the user; None for any other."""
    if isinstance(error, Fault):
        return error.code
    # The code that raised the error has loaded its module: a successful command loads none for
    # this.
    from shared.adapters.run_files import NotWritten
    from shared.kubernetes.objects.errors import WorldError
    from shared.machine.fold import NeedsReset
    from shared.machine.reader import JournalGap
    from shared.machine.record import RecordUnreadable
    from shared.ports.bus import BusCorrupt, BusUnavailable
    from shared.scheduling.api.custom.plugin import PluginMissing

    if isinstance(error, WorldError | PluginMissing):
        return EXIT_USAGE
    failures = (BusUnavailable, BusCorrupt, RecordUnreadable, JournalGap, NeedsReset, NotWritten)
    return EXIT_FAILURE if isinstance(error, failures) else None
