"""Small observations and a readable form of ingest's decisions; no checks."""

from typing import Any

from services.ingest.core.core import IngestCore
from shared.events import observed
from shared.events.base import Configured, Event
from shared.events.ingest import WorldListed
from shared.model.columns import join, pack, unpack
from shared.model.objects import Node, PodSpec
from tests.support.builders import model_node
from tests.support.steps import Steps

ZONE = "topology.kubernetes.io/zone"
SMALL = PodSpec(requests=(("cpu", 100),))
LARGE = PodSpec(requests=(("cpu", 4_000),))


def ingest(placements: int = 1, **options) -> Any:
    """Return the steps of a core in its first term."""
    steps = Steps(IngestCore(placements))
    decided = steps.when(Configured({"ingest": options}), observed.WorldOpened("c1"))
    assert decided == [WorldListed(complete=False)]
    return steps


def node(name: str, zone: str = "", uid: str = "", **fields) -> Node:
    builder = model_node(name, uid or f"uid-{name}").labels({ZONE: zone} if zone else {})
    return builder.fields(**fields).obj()


def nodes(*names: str) -> observed.NodesSeen:
    return observed.NodesSeen(tuple(node(name) for name in names))


def pods(*names: str, at: int = 1, spec: PodSpec = SMALL, on: str = "", **fields):
    """Return pods with revisions from `at` on; `on` names a node for each ("-": none)."""
    uids = join(f"uid-{name}" for name in names)
    revisions = pack(range(at, at + len(names)))
    seen = join(on.split()) if on else ""
    return observed.PodsSeen(spec, uids, join(names), revisions, nodes=seen, **fields)


def bound(*pairs: str, at: int = 1) -> observed.PodsBoundSeen:
    """Return an observation of pods on nodes, given as `name:node`."""
    split = [pair.split(":") for pair in pairs]
    uids = join(f"uid-{name}" for name, _node in split)
    return observed.PodsBoundSeen(
        uids, join(node for _name, node in split), pack(range(at, at + len(pairs)))
    )


def gone(*names: str) -> observed.PodsDeletedSeen:
    return observed.PodsDeletedSeen(join(f"uid-{name}" for name in names))


def listed(kind: str, *events: Event, revision: int = 1, count: int = 0) -> list[Event]:
    """Return the events of a whole list."""
    return [observed.ListBegan(kind, revision), *events, observed.ListEnded(kind, count)]


def ids(event: Any) -> Any:
    return unpack(event.ids).tolist()


def names(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def one(events: list[Event], kind: type) -> Any:
    (found,) = [event for event in events if isinstance(event, kind)]
    return found
