"""`muster queues import`: prints the queues of other schedulers as Queues."""

import sys
from collections.abc import Sequence
from pathlib import Path

from muster.queue_import.convert import convert
from shared.adapters import bounded_yaml
from shared.model.text import one_line


def print_queues(files: Sequence[Path]) -> None:
    """Print manifests on standard output, and what has no counterpart on standard error. Raises
    WorldError.
    """
    found = convert(files)
    for note in found.notes:
        print(one_line(note), file=sys.stderr)
    print(bounded_yaml.dump_all(found.manifests), end="")
