"""What a plan starts from: a shard with the nodes and pods of a cluster, and which may move."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec import Struct

from services.placement.core.state import PlacementState
from shared.model.ids import PodId, SignatureId


class RunningPod(Struct, frozen=True):
    """A pod on a node. `name` is NAMESPACE/NAME, `owner` the uid of its controller, `ran_ms` how
    long it has run. `stays`: why it must not be moved; empty: it may be.
    """

    name: str
    uid: str
    owner: str = ""
    ran_ms: int = 0
    stays: str = ""


@dataclass(frozen=True)
class Cluster:
    """`pods` by their numbers in the ledger of `state`; pods that it lacks are not moved. `wanted`
    is the signature of the pods that should fit. A plan changes nothing of it.
    """

    state: PlacementState
    pods: Mapping[PodId, RunningPod]
    wanted: SignatureId


Domain = Callable[[int], bool]
"""Whether the node in a row of the table belongs to the domain in question."""
