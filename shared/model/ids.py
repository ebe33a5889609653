"""Integer identities of the mesh, with a type for each kind.

Ingest gives every uid it meets a number, in the order of the world journal; from there on the mesh
speaks numbers only, so that columns are arrays and ties have one order everywhere. A number is
never used twice within an epoch: a pod or node re-created under its old name has another uid and
so another number.

To a type checker they are kinds of int; at run time, in journals and in columns they are plain
integers. A column's `tolist()` may be any kind: name it where the list gets its name.
"""

from typing import NewType

JournalName = NewType("JournalName", str)
"""`service/partition`, for example `ingest/0` or `placement/2`."""

PodId = NewType("PodId", int)
NodeId = NewType("NodeId", int)
SignatureId = NewType("SignatureId", int)
GangId = NewType("GangId", int)
AttemptId = NewType("AttemptId", int)
"""Queueing's number of a try to place pods or a gang."""
AskId = NewType("AskId", int)
"""Preemption's number of a search for victims, for one pod or for a gang."""
EffectId = NewType("EffectId", int)
"""A service's number of a request to the outside."""

Position = NewType("Position", int)
"""The place of a record in its journal, counted from 0."""

START = Position(0)
GangAttempt = tuple[GangId, AttemptId]

NO_POD = PodId(0)
NO_NODE = NodeId(0)
NO_SIGNATURE = SignatureId(0)
NO_GANG = GangId(0)
NO_ATTEMPT = AttemptId(0)
NO_ASK = AskId(0)
NO_EFFECT = EffectId(0)

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
