"""Lookups over the world journal: names, numbers, specs, nodes and gangs."""

from dataclasses import dataclass, field

from muster.checker.inputs.journals import Journal
from shared.events.base import Event
from shared.events.ingest import (
    BudgetCovers,
    BudgetSet,
    GangGone,
    GangSet,
    NodesSet,
    PodsAssigned,
    PodsGone,
    PodsNamed,
    PodsPending,
    PodsRelabelled,
    SignatureDefined,
)
from shared.model.columns import split, unpack
from shared.model.objects import Node, PodSpec


@dataclass
class Facts:
    """Lookups over one epoch's world journal. `sig_of` and `gang_of` hold the latest value."""

    specs: dict[int, PodSpec] = field(default_factory=dict)
    sig_of: dict[int, int] = field(default_factory=dict)
    gang_of: dict[int, int] = field(default_factory=dict)
    gangs: dict[int, GangSet] = field(default_factory=dict)
    uid_of: dict[int, str] = field(default_factory=dict)
    id_of: dict[str, int] = field(default_factory=dict)
    name_of: dict[int, str] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)
    shard_of: dict[int, int] = field(default_factory=dict)
    node_id: dict[str, int] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    assigned: dict[int, int] = field(default_factory=dict)
    gone_gangs: set[int] = field(default_factory=set)
    covered: dict[int, set[int]] = field(default_factory=dict)

    def spec(self, pod: int) -> PodSpec | None:
        """Return the pod's latest spec, or None."""
        return self.specs.get(self.sig_of.get(pod, 0))

    def label(self, pod: int) -> str:
        """Return the pod's name for messages."""
        return f"pod {pod} ({self.name_of.get(pod, '?')})"


def gather(world: Journal) -> Facts:
    """Read the whole world journal."""
    facts = Facts()
    for entry in world.entries:
        for event in entry.events():
            _learn(facts, event)
    return facts


def _learn(facts: Facts, event: Event) -> None:
    match event:
        case SignatureDefined():
            facts.specs[event.sig] = event.spec
        case PodsPending():
            for pod in unpack(event.ids).tolist():
                facts.sig_of[pod] = event.sig
                facts.gang_of[pod] = event.gang
        case PodsNamed():
            named = zip(
                unpack(event.ids).tolist(), split(event.uids), split(event.names), strict=True
            )
            for pod, uid, name in named:
                facts.uid_of[pod], facts.id_of[uid] = uid, pod
                facts.name_of[pod] = f"{event.namespace}/{name}"
        case PodsAssigned():
            columns = zip(
                unpack(event.ids).tolist(),
                unpack(event.sigs).tolist(),
                unpack(event.nodes).tolist(),
                strict=True,
            )
            for pod, sig, node in columns:
                facts.sig_of[pod] = sig
                facts.assigned[pod] = node
        case PodsRelabelled():
            sigs = unpack(event.sigs).tolist()
            facts.sig_of.update(zip(unpack(event.ids).tolist(), sigs, strict=True))
        case PodsGone():
            facts.gone.update(unpack(event.ids).tolist())
        case _:
            _learn_more(facts, event)


def _learn_more(facts: Facts, event: Event) -> None:
    match event:
        case NodesSet():
            for node, value in zip(unpack(event.ids).tolist(), event.nodes, strict=True):
                facts.nodes[node] = value
                facts.node_id[value.uid] = node
                facts.shard_of[node] = event.shard
        case GangSet():
            facts.gangs[event.gang] = event
            facts.gone_gangs.discard(event.gang)
        case GangGone():
            facts.gone_gangs.add(event.gang)
        case BudgetSet():
            facts.covered.setdefault(event.budget, set()).update(unpack(event.covered).tolist())
        case BudgetCovers():
            facts.covered.setdefault(event.budget, set()).update(unpack(event.ids).tolist())
        case _:
            pass
