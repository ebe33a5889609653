"""Integer identities of the mesh.

Ingest gives every uid it meets a number, in the order of the world journal; from there on the mesh
speaks numbers only, so that columns are arrays and ties have one order everywhere. A number is
never used twice within an epoch: a pod or node re-created under its old name has another uid and
so another number.
"""

INGEST = "ingest/0"
QUEUEING = "queueing/0"
PERMIT = "permit/0"
PREEMPTION = "preemption/0"
BINDING = "binding/0"

SHARDS_MAX = 60
"""Of one mesh: sets of shards are the bits of one integer, in states and snapshots."""


def placement(shard: int) -> str:
    """Journal name of one placement partition."""
    return f"placement/{shard}"


def service_of(journal: str) -> str:
    """`placement` of `placement/2`."""
    return journal.partition("/")[0]
