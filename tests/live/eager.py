"""`python -m tests.live.eager MILLISECONDS WORDS...`: `muster` with a snapshot due so often."""

import sys

from muster.__main__ import main
from muster.cli.commands import live

if __name__ == "__main__":
    live.SNAPSHOT_MS = int(sys.argv.pop(1))
    sys.exit(main())
