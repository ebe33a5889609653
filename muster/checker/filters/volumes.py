"""Checks volumes: no volume for two claims, one pod per ReadWriteOncePod claim, no endless wait.

It reads a shard's inputs and decisions, and the final state of each claim in the cluster. It does
not know which volume matches a claim.
"""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

from muster.checker.inputs.history import ClusterHistory
from muster.checker.inputs.journals import Problem
from shared.events.placement import Reserved, VolumesChosen
from shared.model.cluster_objects import ClusterObject, PersistentVolume, PersistentVolumeClaim
from shared.model.columns import unpack
from shared.model.objects import PodSpec
from shared.model.volumes import Choice, ClaimUse

ONE_POD = "ReadWriteOncePod"
Name = tuple[str, str]


def claims_of(spec: PodSpec, namespace: str) -> list[Name]:
    """Return the claims that a pod uses."""
    return [(namespace, one.name) for one in spec.volumes if isinstance(one, ClaimUse)]


@dataclass
class Volumes:
    """A shard's claims, and the pods reserved with volumes that are not bound yet."""

    claims: dict[Name, PersistentVolumeClaim] = field(default_factory=dict)
    waits: dict[int, tuple[Choice, ...]] = field(default_factory=dict)

    def update(self, objects: Iterable[ClusterObject]) -> None:
        """Update the claims with these objects."""
        for one in objects:
            if isinstance(one, PersistentVolumeClaim):
                self.claims[one.namespace, one.name] = one

    def gone(self, uids: Iterable[str]) -> None:
        """Remove deleted claims."""
        lost = set(uids)
        self.claims = {name: one for name, one in self.claims.items() if one.uid not in lost}

    def over(self, pods: Iterable[int]) -> None:
        """Forget pods that wait for volumes no longer."""
        for pod in pods:
            self.waits.pop(pod, None)

    def reserved(self, pod: int, choices: tuple[Choice, ...]) -> Iterator[tuple[str, str]]:
        """Yield (rule, text) of each violation in a choice of volumes."""
        for choice in choices:
            for other, held in sorted(self.waits.items()):
                for one in held:
                    if choice.volume and one.volume == choice.volume and one.claim != choice.claim:
                        text = f"pod {pod} and pod {other} are both to have {choice.volume}"
                        yield "one-claim-per-volume", text
        self.waits[pod] = choices

    def shared(self, spec: PodSpec, standing: Iterable[tuple[int, PodSpec]]) -> Iterator[str]:
        """Yield ReadWriteOncePod claims of the pod that another pod uses."""
        exclusive = self.exclusive(spec)
        return users(exclusive, standing) if exclusive else iter(())

    def exclusive(self, spec: PodSpec) -> set[Name]:
        """Return the ReadWriteOncePod claims of a pod."""
        return {
            name
            for name in claims_of(spec, spec.namespace)
            if (claim := self.claims.get(name)) is not None and ONE_POD in claim.access_modes
        }


def users(claims: Set[Name], standing: Iterable[tuple[int, PodSpec]]) -> Iterator[str]:
    """Yield which of the claims the pods use."""
    for pod, spec in standing:
        for name in sorted(claims & set(claims_of(spec, spec.namespace))):
            yield f"claim {'/'.join(name)} is that of pod {pod}"


@dataclass
class Writes:
    """Volumes in binding's journal: the choice of each pod, and the pods whose volumes
    are written.
    """

    chosen: dict[int, tuple[int, tuple[Choice, ...]]] = field(default_factory=dict)
    written: dict[int, bool] = field(default_factory=dict)
    promised: dict[int, int] = field(default_factory=dict)  # number of the promise -> pod

    def reserved(self, event: Reserved | VolumesChosen) -> None:
        """Note the node and volumes that a shard chose."""
        self.over(unpack(event.ids).tolist())
        if event.volumes:
            (pod,), (node,) = unpack(event.ids).tolist(), unpack(event.nodes).tolist()
            self.chosen[pod] = node, event.volumes

    def over(self, pods: Iterable[int]) -> None:
        """End the promises of pods whose volumes are bound or given up."""
        for pod in pods:
            self.chosen.pop(pod, None)
            self.written.pop(pod, None)

    def asked(self, pods: Iterable[int]) -> Iterator[str]:
        """Note the pods whose volumes are written; yield volumes promised to another pod."""
        for pod in pods:
            node, choices = self.chosen.get(pod, (0, ()))
            for other in self.written:
                if other != pod:
                    yield from _both(pod, node, choices, other, *self.chosen[other])
            if choices:
                self.written[pod] = True


def _both(
    pod: int,
    node: int,
    mine: tuple[Choice, ...],
    other: int,
    other_node: int,
    other_choices: tuple[Choice, ...],
) -> Iterator[str]:
    for one in mine:
        for two in other_choices:
            is_same = (one.namespace, one.claim) == (two.namespace, two.claim)
            if one.volume and one.volume == two.volume and not is_same:
                yield f"pod {pod} and pod {other} are both to have {one.volume}"
            if is_same and (one != two or (not one.volume and node != other_node)):
                yield f"pod {pod} and pod {other} are to have {one.claim} at different places"


def at_end(history: ClusterHistory) -> Iterator[Problem]:
    """Yield pods that we bound without their claims, and volumes with two claims."""
    claims, owners = {}, {}
    for one in history.objects:
        if isinstance(one, PersistentVolumeClaim):
            claims[one.namespace, one.name] = one
        elif isinstance(one, PersistentVolume) and one.claim is not None:
            owners[one.name] = one.claim.uid
    for claim in claims.values():
        if claim.volume and owners.get(claim.volume) != claim.uid:
            yield ("one-claim-per-volume", f"{claim.name} has {claim.volume} of another claim")
    for uid, pod in history.pods.items():
        if not pod.node or not pod.by_mesh:
            continue
        for name in claims_of(pod.spec, pod.namespace):
            found = claims.get(name)
            if found is not None and not (found.volume and found.is_bind_completed):
                yield ("bound-before", f"{uid} was bound, its claim {name[1]} was not")
