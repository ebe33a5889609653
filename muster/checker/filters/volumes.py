"""Volumes again: no volume for two claims, a claim for one pod has one, nobody waits for ever.

Of the shard it reads what the shard had been told and what it decided; of the cluster what each
claim came to. Knows nothing of which volume is the right one.
"""

from collections.abc import Iterable, Iterator
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
    """The claims that a pod uses."""
    return [(namespace, one.name) for one in spec.volumes if isinstance(one, ClaimUse)]


@dataclass
class Volumes:
    """What a shard knows of claims, and who is reserved with volumes that are not bound yet."""

    claims: dict[Name, PersistentVolumeClaim] = field(default_factory=dict)
    waits: dict[int, tuple[Choice, ...]] = field(default_factory=dict)

    def told(self, objects: Iterable[ClusterObject]) -> None:
        """Claims are as these say."""
        for one in objects:
            if isinstance(one, PersistentVolumeClaim):
                self.claims[one.namespace, one.name] = one

    def gone(self, uids: Iterable[str]) -> None:
        """Some are no more."""
        lost = set(uids)
        self.claims = {name: one for name, one in self.claims.items() if one.uid not in lost}

    def over(self, pods: Iterable[int]) -> None:
        """These wait no longer."""
        for pod in pods:
            self.waits.pop(pod, None)

    def reserved(self, pod: int, choices: tuple[Choice, ...]) -> Iterator[tuple[str, str]]:
        """(rule, text) of what is wrong with a choice."""
        for choice in choices:
            for other, held in sorted(self.waits.items()):
                for one in held:
                    if choice.volume and one.volume == choice.volume and one.claim != choice.claim:
                        text = f"pod {pod} and pod {other} are both to have {choice.volume}"
                        yield "one-claim-per-volume", text
        self.waits[pod] = choices

    def shared(self, spec: PodSpec, standing: Iterable[tuple[int, PodSpec]]) -> Iterator[str]:
        """Claims for one pod alone that somebody else uses."""
        own = {
            name
            for name in claims_of(spec, spec.namespace)
            if (claim := self.claims.get(name)) is not None and ONE_POD in claim.access_modes
        }
        for pod, other in standing if own else ():
            for name in sorted(own.intersection(claims_of(other, other.namespace))):
                yield f"claim {'/'.join(name)} is that of pod {pod}"


@dataclass
class Writes:
    """What binding's journal says of volumes that several shards chose: by pod, and who has them
    written.
    """

    chosen: dict[int, tuple[int, tuple[Choice, ...]]] = field(default_factory=dict)
    written: dict[int, bool] = field(default_factory=dict)
    promised: dict[int, int] = field(default_factory=dict)  # pods by number

    def reserved(self, event: Reserved | VolumesChosen) -> None:
        """A shard chose a node and volumes."""
        self.over(unpack(event.ids).tolist())
        if event.volumes:
            (pod,), (node,) = unpack(event.ids).tolist(), unpack(event.nodes).tolist()
            self.chosen[pod] = node, event.volumes

    def over(self, pods: Iterable[int]) -> None:
        """These have their volumes, or will not get them."""
        for pod in pods:
            self.chosen.pop(pod, None)
            self.written.pop(pod, None)

    def asked(self, pods: Iterable[int]) -> Iterator[str]:
        """Those are to be written; yields what was promised to somebody else."""
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
    there: int,
    theirs: tuple[Choice, ...],
) -> Iterator[str]:
    for one in mine:
        for two in theirs:
            is_same = (one.namespace, one.claim) == (two.namespace, two.claim)
            if one.volume and one.volume == two.volume and not is_same:
                yield f"pod {pod} and pod {other} are both to have {one.volume}"
            if is_same and (one != two or (not one.volume and node != there)):
                yield f"pod {pod} and pod {other} are to have {one.claim} at different places"


def at_end(history: ClusterHistory) -> Iterator[Problem]:
    """Of the cluster: whom we bound has its claims, and no volume is that of two."""
    claims, owners = {}, {}
    for one in history.objects:
        if isinstance(one, PersistentVolumeClaim):
            claims[one.namespace, one.name] = one
        elif isinstance(one, PersistentVolume) and one.claim is not None:
            owners[one.name] = one.claim.uid
    for claim in claims.values():
        if claim.volume and owners.get(claim.volume) != claim.uid:
            yield ("one-claim-per-volume", f"{claim.name} has {claim.volume} of somebody else")
    for uid, pod in history.pods.items():
        if not pod.node or not pod.by_mesh:
            continue
        for name in claims_of(pod.spec, pod.namespace):
            found = claims.get(name)
            if found is not None and not (found.volume and found.is_bind_completed):
                yield ("bound-before", f"{uid} was bound, its claim {name[1]} was not")
