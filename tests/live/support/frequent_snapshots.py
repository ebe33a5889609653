"""Runs `muster` with frequent snapshots.

`python -m tests.live.support.frequent_snapshots MILLISECONDS ARGUMENTS...`: a snapshot is due
every so many milliseconds.
"""

import sys

from muster.__main__ import main
from muster.cli.commands import live

if __name__ == "__main__":
    live.SNAPSHOT_MS = int(sys.argv.pop(1))
    sys.exit(main())
