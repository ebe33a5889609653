"""The names of a mesh's journals. Reading a run needs them but no core, so they are apart."""

from itertools import chain

from shared.machine.reset import renamed
from shared.model.ids import SERVICES, JournalName, placement
from shared.ports.bus import split_journal


def all_journals(placements: int) -> list[JournalName]:
    """Return all journals of a mesh with this many placement shards, in the order of the flow."""
    shards = [placement(shard) for shard in range(placements)]
    others = {service: [JournalName(f"{service}/0")] for service in SERVICES}
    return list(chain.from_iterable((others | {"placement": shards}).values()))


def partitions(placements: int) -> dict[str, int]:
    """Return the number of journals by service: the partitions that a bus with topics needs."""
    return {**dict.fromkeys((*SERVICES, "epochs"), 1), "placement": placements}


def topics(placements: int, epoch: int) -> dict[str, int]:
    """Return the partitions by topic name for one epoch."""
    return {
        split_journal(renamed(f"{service}/0", epoch))[0]: count
        for service, count in partitions(placements).items()
    }
