"""`python -m muster.simulation SEED [SEED...]`: run seeds of the built-in world, one line each."""

import sys

from muster.simulation.command import run_seeds

if __name__ == "__main__":
    sys.exit(run_seeds([int(word) for word in sys.argv[1:]]))
