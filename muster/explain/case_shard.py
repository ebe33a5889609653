"""A shard of placement that holds the nodes and pods of a case, as if a watch had shown them."""

from msgspec import to_builtins

from services.placement.core.core import PlacementCore
from services.placement.core.state import PlacementState
from shared.events.base import Configured, Event
from shared.events.ingest import NodesSet, PodsAssigned, PodsStarted, SignatureDefined
from shared.model.columns import pack
from shared.model.ids import NodeId, SignatureId
from shared.model.objects import PodSpec
from shared.model.profile import Configuration
from shared.model.release import ReleaseOptions
from shared.worlds.case import Case


class CaseShard:
    """The shard. Its pods on nodes are numbered from 1, in the order of the case."""

    def __init__(self, case: Case, config: Configuration | None, release: ReleaseOptions) -> None:
        """`config` has the profiles."""
        self._core = PlacementCore(0)
        self.state: PlacementState = self._core.new()
        profiles = () if config is None else config.profiles
        options = {"profiles": to_builtins(profiles), **to_builtins(release)}
        self.evolve(Configured({"placement": options}))
        self.state.table.counters.labels_of = dict(case.namespaces)
        for stored in case.storage:
            self.state.storage.put(stored)
        self._sigs: dict[PodSpec, SignatureId] = {}
        numbers = range(1, len(case.nodes) + 1)
        self.ids = {
            node.name: NodeId(number) for node, number in zip(case.nodes, numbers, strict=True)
        }
        self.evolve(NodesSet(0, pack(list(numbers)), case.nodes))
        for number, placed in enumerate(case.placed, start=1):
            sig, node = self.sig(placed.pod.spec), self.ids[placed.pod.node]
            self.evolve(PodsAssigned(0, pack([number]), pack([sig]), pack([node])))
            if placed.pod.start_ms:
                self.evolve(PodsStarted(0, pack([number]), pack([placed.pod.start_ms])))

    def evolve(self, event: Event) -> None:
        """Apply a fact."""
        self._core.evolve(self.state, event)

    def sig(self, spec: PodSpec) -> SignatureId:
        """Return the signature of a spec."""
        sig = self._sigs.get(spec)
        if sig is None:
            sig = self._sigs[spec] = SignatureId(len(self._sigs) + 1)
            self.evolve(SignatureDefined(sig, spec))
        return sig
