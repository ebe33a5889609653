"""Whether a pod's claims fit a node, as the DynamicResources plugin decides it
(pkg/scheduler/framework/plugins/dynamicresources): its PreEnqueue, PreFilter, Filter and Score.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from shared.model.claims import (
    ALTERNATIVES_MAX,
    Allocation,
    ClaimName,
    DeviceClass,
    DeviceId,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from shared.model.pod_rules.pod_claims import PodClaim
from shared.model.release import V1_36, V1_37
from shared.scheduling.claims.allocator import Allocator, NodeRejected
from shared.scheduling.claims.capacity import Shares
from shared.scheduling.claims.cel.compiler import Selector
from shared.scheduling.claims.device_table import EXPRESSIONS_MAX, DeviceTable
from shared.scheduling.claims.reach import NodeView, among
from shared.scheduling.claims.results import prioritized

SCORE_MAX = 100
NO_ALLOCATION = "cannot allocate all claims"
NOT_AVAILABLE = "resourceclaim not available on the node"


class NotReady(ValueError):
    """The pod cannot be tried on any node, because of its claims; its text is PreFilter's."""


class ClaimingPod(Struct, frozen=True):
    """A pod with its claims."""

    namespace: str
    name: str
    uid: str
    claims: tuple[PodClaim, ...]


class Fit(Struct, frozen=True):
    """How the claims fit a node: the reason if they do not, else what each new claim would get."""

    reason: str = ""
    allocations: tuple[tuple[ResourceClaim, Allocation], ...] = ()
    score: int = 0


class ClaimFacts:
    """The classes, slices and claims of a cluster."""

    def __init__(
        self,
        classes: Iterable[DeviceClass] = (),
        slices: Iterable[ResourceSlice] = (),
        claims: Iterable[ResourceClaim] = (),
        version: str = V1_37,
        rules: Sequence[DeviceTaintRule] = (),
    ) -> None:
        """`version` is the release of kube-scheduler."""
        self.version = version
        self.classes = {one.name: one for one in classes}
        self.table = DeviceTable(slices, version, rules)
        self.claims: dict[ClaimName, ResourceClaim] = {one.key: one for one in claims}
        self.in_use: set[DeviceId] = set()
        for one in self.claims.values():
            if one.allocation is not None:
                self.in_use |= {
                    result.id
                    for result in one.allocation.results
                    if not (result.admin_access or (result.share_id and version >= V1_36))
                }
        held = (one.allocation for one in self.claims.values() if one.allocation is not None)
        self.shares = Shares(held if version >= V1_36 else ())
        self._compiled: dict[str, Selector] = {}

    def compiled(self, expression: str) -> Selector:
        """Return the selector of an expression. Raises SelectorError."""
        found = self._compiled.get(expression)
        if found is None:
            if len(self._compiled) >= EXPRESSIONS_MAX:
                self._compiled.clear()
            found = self._compiled[expression] = Selector(expression)
        return found

    def resolve(self, pod: ClaimingPod) -> list[ResourceClaim]:
        """Return the pod's claims; those that it turned out not to need are left out. Raises
        NotReady.
        """
        found = []
        for one in pod.claims:
            name = one.claim or one.made
            if name is None:
                raise NotReady(f'pod "{pod.namespace}/{pod.name}": ResourceClaim not created yet')
            if not name:
                continue
            claim = self.claims.get((pod.namespace, name))
            if claim is None:
                raise NotReady(f'could not find ResourceClaim "{pod.namespace}/{name}"')
            if claim.is_deleted:
                raise NotReady(f'resourceclaim "{name}" is being deleted')
            if not one.claim and claim.owner != pod.uid:
                a_pod = "Pod" if self.version >= V1_36 else "pod"
                raise NotReady(
                    f"ResourceClaim {claim.shown} was not created for {a_pod}"
                    f" {pod.namespace}/{pod.name} ({a_pod} is not owner)"
                )
            found.append(claim)
        return found

    def check_classes(self, claims: Sequence[ResourceClaim]) -> None:
        """Check that the classes of new claims exist. Raises NotReady."""
        for claim in claims:
            for request in claim.spec.requests if claim.allocation is None else ():
                for wanted in request.wanted:
                    if wanted.device_class not in self.classes:
                        name = (
                            f"{request.name}/{wanted.name}" if request.has_choice else request.name
                        )
                        raise NotReady(
                            f"request {name}: device class {wanted.device_class} does not exist"
                        )

    def fit(self, claims: Sequence[ResourceClaim], node: NodeView) -> Fit:
        """Return how a pod's claims fit a node. Raises AllocationError."""
        new = [one for one in claims if one.allocation is None]
        try:
            allocations = self._allocate(new, node)
        except NodeRejected as error:
            return Fit(str(error))
        if allocations is None:
            return Fit(NO_ALLOCATION)
        if not all(_is_available(one, node) for one in claims):
            return Fit(NOT_AVAILABLE)
        if not new:
            return Fit()  # kube-scheduler scores no pod whose claims all have devices
        given = tuple(zip(new, allocations, strict=True))
        held = [(one, one.allocation) for one in claims if one.allocation is not None]
        score = sum(prioritized(one, has, ALTERNATIVES_MAX) for one, has in (*given, *held))
        return Fit("", given, score)

    def _allocate(
        self, new: Sequence[ResourceClaim], node: NodeView
    ) -> tuple[Allocation, ...] | None:
        if not new:
            return ()
        allocator = Allocator(
            self.table, self.classes, self.in_use, self.compiled, self.version, self.shares
        )
        return allocator.allocate(node, new)


def normalised(scores: Mapping[str, int]) -> dict[str, int]:
    """Return scores of which the highest is 100, unless all are 0 (DefaultNormalizeScore)."""
    most = max(scores.values(), default=0)
    return {name: score * SCORE_MAX // most if most else 0 for name, score in scores.items()}


def _is_available(claim: ResourceClaim, node: NodeView) -> bool:
    """Return whether the node reaches what the claim has already."""
    if claim.allocation is None or claim.allocation.nodes is None:
        return True
    return among(claim.allocation.nodes, node)
