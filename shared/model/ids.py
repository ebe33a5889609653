"""Integer identities of the mesh.

Ingest gives every uid it meets a number, in the order of the world journal; from there on the mesh
speaks numbers only, so that columns are arrays and ties have one order everywhere. A number is
never used twice within an epoch: a pod or node re-created under its old name has another uid and
so another number.
"""

from typing import NewType

JournalName = NewType("JournalName", str)
"""`service/partition`, for example `ingest/0` or `placement/2`."""

SERVICES = (
    "ingest",
    "queueing",
    "placement",
    "permit",
    "preemption",
    "binding",
)
"""The services of a mesh, in the order of the flow."""

INGEST = JournalName("ingest/0")
QUEUEING = JournalName("queueing/0")
PERMIT = JournalName("permit/0")
PREEMPTION = JournalName("preemption/0")
BINDING = JournalName("binding/0")

SHARDS_MAX = 60
"""The largest number of shards: sets of shards are the bits of one integer, in states and
snapshots.
"""


def placement(shard: int) -> JournalName:
    """Return the journal name of one placement partition."""
    return JournalName(f"placement/{shard}")


def service_of(journal: str) -> str:
    """Return the service of a journal: `placement` for `placement/2`."""
    return journal.partition("/")[0]
