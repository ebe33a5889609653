"""`python -m muster`, and what the `muster` command calls."""

import os
import sys

from muster.cli.errors import EXIT_INTERRUPTED


def main() -> int:
    """Run one command; returns the exit code. Ctrl-C may come while the modules load."""
    # Nothing here multiplies matrices: the threads that numpy would start for it cost each start
    # 40 ms of processor time, and sum in an order that depends on how many there are.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from muster.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        print("muster: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
