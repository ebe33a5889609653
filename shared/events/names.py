"""Names for the mesh's numbers, learned from the world journal; and which events concern which
subject.

For reading journals (story, replay, explain); no service uses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import msgspec

from shared.events.base import Event
from shared.events.ingest import (
    BudgetSet,
    GangSet,
    NodesGone,
    NodesSet,
    PodsNamed,
    PodsPending,
    ProvisioningSet,
)
from shared.events.observed import GangsSeen, InputRejected, NodesDeletedSeen, NodesSeen, PodsSeen
from shared.events.placement import CandidatesFound, PlacesFound
from shared.events.preemption import DryRunAsked, GangNominateAsked, NominateAsked
from shared.model.columns import pack, split, unpack
from shared.model.ids import NO_ASK, NO_GANG, NO_POD, AskId, GangId, NodeId, PodId

KINDS = ("pod", "gang", "node")
REJECTED = {"pod": ("Pod",), "gang": ("PodGroup", "Workload"), "node": ("Node",)}
"""The names of the kinds in rejections."""
POD_COLUMNS = ("ids", "victims", "covered", "disrupted", "others")


class NoSuchName(Exception):
    """The world journal has no object of that kind and name."""


@dataclass(frozen=True)
class Subject:
    """The subject of a story. A name may have belonged to several pods or nodes, one
    after another.
    """

    kind: str
    name: str
    ids: frozenset[int]
    uids: frozenset[str] = frozenset()


@dataclass
class Names:
    """The names of the numbers."""

    pods: dict[PodId, str] = field(default_factory=dict)
    uids: dict[PodId, str] = field(default_factory=dict)
    nodes: dict[NodeId, str] = field(default_factory=dict)
    node_uids: dict[NodeId, str] = field(default_factory=dict)
    gangs: dict[GangId, str] = field(default_factory=dict)
    budgets: dict[int, str] = field(default_factory=dict)
    gang_of: dict[PodId, GangId] = field(default_factory=dict)
    asks: dict[AskId, PodId] = field(default_factory=dict)
    rejected: dict[str, None] = field(default_factory=dict)

    def learn(self, event: Event) -> None:
        """Learn the names in an event."""
        match event:
            case PodsNamed():
                ids = unpack(event.ids).tolist()
                names = (f"{event.namespace}/{name}" for name in split(event.names))
                self.pods.update(zip(ids, names, strict=True))
                self.uids.update(zip(ids, split(event.uids), strict=True))
            case PodsPending() if event.gang:
                self.gang_of.update(dict.fromkeys(unpack(event.ids).tolist(), event.gang))
            case NodesSet():
                for number, node in zip(unpack(event.ids).tolist(), event.nodes, strict=True):
                    self.nodes[number], self.node_uids[number] = node.name, node.uid
            case GangSet():
                self.gangs[event.gang] = event.key
            case BudgetSet() if event.name:
                self.budgets[event.budget] = f"budget {event.name}"
            case InputRejected():
                self.rejected[event.what] = None
            case DryRunAsked() | NominateAsked():
                self.asks[event.ask] = event.pod
            case GangNominateAsked():
                self.asks.update((one.ask, one.pod) for one in event.nominees)

    def pod(self, pod: PodId) -> str:
        """Return a pod's name, or its number."""
        return self.pods.get(pod, f"pod {pod}")

    def node(self, node: NodeId) -> str:
        """Return a node's name, or its number."""
        return self.nodes.get(node, f"node {node}")

    def gang(self, gang: GangId) -> str:
        """Return a gang's key, or its number."""
        return self.gangs.get(gang, f"gang {gang}")

    def budget(self, budget: int) -> str:
        """Return a budget by its name, or its number."""
        return self.budgets.get(budget, f"budget {budget}")

    def subject(self, kind: str, number: int) -> Subject:
        """Return the subject with this number."""
        table, uids = self._tables(kind)
        known = frozenset([uids[number]]) if number in uids else frozenset[str]()
        return Subject(kind, table.get(number, str(number)), frozenset([number]), known)

    def find(self, words: str, namespace: str = "") -> Subject:
        """Return the subject `pod/NAME`, `gang/NAME` or `node/NAME`; names with or without their
        namespace. Nodes have none.

        Raises NoSuchName with one clear line.
        """
        kind, _, name = words.partition("/")
        if kind not in KINDS or not name:
            raise NoSuchName(f"{words}: must be pod/NAME, gang/NAME or node/NAME")
        inside = f"{namespace}/" if namespace and kind != "node" else ""
        table, uids = self._tables(kind)
        ids = [number for number, known in table.items() if is_named(known, name, inside)]
        alike = sorted({table[number] for number in ids})
        if len(alike) > 1:
            raise NoSuchName(f"{words}: may be {', '.join(alike)}: name one, or its -n NAMESPACE")
        if not ids and not any(is_called(what, kind, name, inside) for what in self.rejected):
            within = f" in namespace {namespace}" if inside else ""
            raise NoSuchName(f"{words}: no {kind} of this name{within} in the world journal")
        known_uids = frozenset(uids[one] for one in ids)
        return Subject(kind, alike[0] if alike else name, frozenset(ids), known_uids)

    def _tables(self, kind: str) -> tuple[Mapping[Any, str], Mapping[Any, str]]:
        """Return the names and the uids (of gangs: keys) of one kind, by number."""
        match kind:
            case "pod":
                return self.pods, self.uids
            case "gang":
                return self.gangs, self.gangs
            case _:
                return self.nodes, self.node_uids


def differing(first: Event | None, second: Event | None, names: Names) -> Subject | None:
    """Return the pod, gang or node for which two readings of one event differ; None if it names
    none.

    Of a batch it is the first pod that differs, or that has another node.
    """
    for event in (first, second):
        ids = _numbers(event, "ids")
        if ids:
            other = second if event is first else first
            own_pairs = [*zip_longest(ids, _numbers(event, "nodes"))]
            others = [*zip_longest(_numbers(other, "ids"), _numbers(other, "nodes"))]
            row = next(
                (at for at in range(len(ids)) if own_pairs[at : at + 1] != others[at : at + 1]), 0
            )
            return names.subject("pod", ids[row])
        for kind in KINDS:
            number = getattr(event, kind, 0)
            if number:
                return names.subject(kind, number)
        ask = names.asks.get(getattr(event, "ask", NO_ASK), NO_POD)
        if ask:
            return names.subject("pod", ask)
    return None


def _numbers(event: Event | None, name: str) -> list[int]:
    column = getattr(event, name, b"")
    if not isinstance(column, bytes) or len(column) % 8:
        return []
    numbers: list[int] = unpack(column).tolist()
    return numbers


def concerns(event: Event, subject: Subject, names: Names) -> bool:
    """Return whether a story about the subject has this event."""
    if isinstance(event, InputRejected):
        return is_called(event.what, subject.kind, subject.name)
    if subject.kind == "pod":
        return _concerns_pod(event, subject, names)
    if subject.kind == "node":
        return _concerns_node(event, subject)
    if isinstance(event, GangsSeen):
        return any(gang.key in subject.uids for gang in event.gangs)
    if isinstance(event, ProvisioningSet):
        return any(one.gang in subject.uids for one in event.objects)
    if isinstance(event, PodsSeen):
        return event.gang in subject.uids
    return getattr(event, "gang", 0) in subject.ids


def is_called(what: str, kind: str, name: str, inside: str = "") -> bool:
    """Return whether a rejected object (KIND NAME or KIND NAMESPACE/NAME) is the pod,
    gang or node.
    """
    called, _, known = what.partition(" ")
    return called in REJECTED[kind] and is_named(known, name, inside)


def is_named(known: str, name: str, inside: str = "") -> bool:
    """Return whether an object is called by a name with or without its namespace, and begins with
    `inside` (NAMESPACE/).
    """
    return (known == name or known.endswith(f"/{name}")) and known.startswith(inside)


def holds(column: object, ids: frozenset[int]) -> bool:
    """Return whether a packed column has one of the ids. The bytes are searched before they are
    decoded.
    """
    if not isinstance(column, bytes) or len(column) % 8:
        return False
    if not any(pack([one]) in column for one in ids):
        return False
    return not ids.isdisjoint(unpack(column).tolist())


def _concerns_pod(event: Event, subject: Subject, names: Names) -> bool:
    if isinstance(event, NodesSet | NodesGone):
        return False
    if getattr(event, "pod", 0) in subject.ids:
        return True
    if any(holds(getattr(event, name, b""), subject.ids) for name in POD_COLUMNS):
        return True
    if any(holds(part.ids, subject.ids) for part in getattr(event, "members", ())):
        return True
    if any(holds(one.victims, subject.ids) for one in getattr(event, "nominees", ())):
        return True
    column = getattr(event, "uids", "")
    if isinstance(column, str) and any(uid in column for uid in subject.uids):
        return not subject.uids.isdisjoint(split(column))
    fields = event.__struct_fields__
    if "gang" in fields and not {"ids", "members", "pod"} & set(fields):
        gangs = {names.gang_of.get(PodId(pod), NO_GANG) for pod in subject.ids} - {NO_GANG}
        return getattr(event, "gang", 0) in gangs
    if "ask" in fields and not {"ids", "pod"} & set(fields):
        return names.asks.get(getattr(event, "ask", NO_ASK), NO_POD) in subject.ids
    return False


def _concerns_node(event: Event, subject: Subject) -> bool:
    match event:
        case NodesSet() | NodesGone():
            return holds(event.ids, subject.ids)
        case NodesSeen():
            return any(node.uid in subject.uids for node in event.nodes)
        case NodesDeletedSeen():
            return not subject.uids.isdisjoint(split(event.uids))
        case CandidatesFound():
            found = (*event.candidates, *event.series)
            return any(candidate.node in subject.ids for candidate in found)
        case PlacesFound():
            return any(place.candidate.node in subject.ids for place in event.places)
    if any(one.node in subject.ids for one in getattr(event, "nominees", ())):
        return True
    if getattr(event, "node", 0) in subject.ids:
        return True
    nodes = getattr(event, "nodes", b"")
    if isinstance(nodes, str):
        return subject.name in split(nodes)
    return holds(nodes, subject.ids)


def column_of(event: msgspec.Struct, name: str) -> list[Any]:
    """Return the numbers of a packed column, [] if it is empty."""
    numbers: list[Any] = unpack(getattr(event, name)).tolist()
    return numbers
