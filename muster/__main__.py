"""`python -m muster`, and what the `muster` command calls."""

import sys

from muster.cli.errors import EXIT_INTERRUPTED


def main() -> int:
    """Run one command; returns the exit code. Ctrl-C may come while the modules load."""
    try:
        from muster.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        print("muster: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
