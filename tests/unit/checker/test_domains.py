"""What the checker finds about gangs with a topology: members in two domains, members placed alone,
false counts of those that run, and room in a domain.
"""

import pytest

from muster.checker.books import Ledger
from muster.checker.filters.fits import Load
from muster.checker.gangs import domains
from muster.checker.inputs.history import PodTruth
from muster.checker.inputs.journals import Entry, Journal, Step
from muster.checker.waiting import Cluster
from shared.events.binding import BindFailed
from shared.events.ingest import GangSet, NodesSet, PodsGone, PodsPending
from shared.events.permit import GangCommitted
from shared.events.placement import GangOffered, Reserved
from shared.events.queueing import GangDispatched, Members
from shared.machine.record import Consumed, Record
from shared.model.columns import pack
from shared.model.groups.topology import Topology
from shared.model.objects import PodSpec, PodTerm, Requirement, SpreadConstraint
from tests.support.builders import model_node

RACK = Topology(("rack",))
INGEST, QUEUEING, PERMIT, SHARD = "ingest/0", "queueing/0", "permit/0", "placement/0"
NAMES = {1: "r", 2: "r", 3: "s", 4: "s"}


def rack_node(name: str, **labels: str):
    return model_node(name).capacity(cpu=1_000, memory=1 << 30).fields(labels=labels).obj()


NODES = tuple(rack_node(f"n{number}", rack=rack) for number, rack in NAMES.items())


class Run:
    """Journals of one gang of at least two members, 11 to 14, on nodes 1 to 4."""

    def __init__(self, topology: Topology | None = RACK) -> None:
        self.journals = {
            name: Journal(name) for name in (INGEST, QUEUEING, PERMIT, SHARD, "binding/0")
        }
        self.add(INGEST, GangSet(5, "default/g", 2, 1_000, 1, topology))
        self.add(INGEST, NodesSet(0, pack(list(NAMES)), NODES))
        self.add(INGEST, PodsPending(7, pack([11, 12, 13, 14]), gang=5))
        self.read(QUEUEING, INGEST)

    def add(self, journal: str, *own: object, inputs: tuple[object, ...] = ()) -> None:
        """Add a record."""
        at = len(self.journals[journal].steps)
        stops = tuple(Consumed(name, 0, len(one.steps)) for name, one in self.journals.items())
        record = Record(0, at, 0, stops)
        self.journals[journal].entries.append(Entry(at, record, [((), list(own))]))
        read = [("", 0, event) for event in inputs]
        self.journals[journal].steps.append(Step(at, record, read, [], list(own)))

    def read(self, reader: str, journal: str) -> None:
        """Let a service read all of another journal."""
        events = [event for entry in self.journals[journal].entries for event in entry.events()]
        self.add(reader, inputs=tuple(events))

    def commit(self, attempt: int, placed: tuple[int, ...] = (), need: int = 2, **places: int):
        """Let members p11 to p14 be sent, offered and committed on these nodes."""
        pods = [int(name[1:]) for name in places]
        sent = GangDispatched(
            *(attempt, 5, 1, need, (Members(7, pack(pods)),), 1_000),
            topology=RACK,
            placed=pack(list(placed)),
        )
        self.add(QUEUEING, sent)
        self.add(SHARD, GangOffered(0, 5, attempt, (len(pods),)))
        done = GangCommitted(5, attempt, pack(pods), pack(list(places.values())), 1)
        self.add(PERMIT, done, inputs=(sent,))
        self.add(QUEUEING, inputs=(done,))

    def found(self) -> list[str]:
        """Return the violations."""
        return [f"{rule}: {text}" for rule, text in domains.check(self.journals)]


def test_members_in_one_domain_are_right():
    run = Run()
    run.commit(1, p11=1, p12=2)
    run.commit(2, (11, 12), need=1, p13=2)
    assert run.found() == []


def test_a_commit_in_two_domains_is_found():
    run = Run()
    run.commit(1, p11=2, p12=3)
    (found,) = run.found()
    assert found.startswith("gang-domain: permit/0 at 0: gang 5: members of 5 in")


def test_a_late_member_in_another_domain_is_found():
    run = Run()
    run.commit(1, p11=1, p12=2)
    run.commit(2, (11, 12), need=1, p13=3)
    assert "gang-domain" in "".join(run.found())


@pytest.mark.parametrize("way", ["gone", "failed"])
def test_members_that_left_fix_no_domain(way):
    run = Run()
    run.commit(1, p11=1, p12=2)
    left = PodsGone(pack([11, 12])) if way == "gone" else BindFailed(pack([11, 12]), "failed")
    source = INGEST if way == "gone" else "binding/0"
    run.add(source, left)
    run.add(QUEUEING, inputs=(left,))
    run.commit(2, p13=3, p14=4)
    assert run.found() == []


def test_with_the_whole_cluster_allowed_any_domain_is_right():
    run = Run(Topology(("rack",), 0, -1))
    run.commit(1, p11=2, p12=3)
    assert run.found() == []


def test_a_member_placed_without_its_gang_is_found():
    run = Run()
    run.add(SHARD, Reserved(0, 1, 7, pack([11]), pack([1]), pack([0]), 0, 0))
    (found,) = run.found()
    assert found == "gang-domain: placement/0 at 0: pod 11 of gang 5 is placed without its gang"


def test_running_members_that_the_dispatch_forgets_are_found():
    run = Run()
    run.commit(1, p11=1, p12=2)
    run.commit(2, (), need=2, p13=1, p14=2)
    first, second, *_ = run.found()
    assert "members [] sent as placed, not {11, 12}" in first
    assert "2 needed beside 2 that run, not 1" in second


def test_a_commit_beside_a_member_that_permit_knows_is_gone_is_found():
    run = Run()
    run.commit(1, p11=1, p12=2)
    sent = GangDispatched(
        2, 5, 1, 1, (Members(7, pack([13])),), 1_000, topology=RACK, placed=pack([11, 12])
    )
    run.add(QUEUEING, sent)
    run.add(PERMIT, inputs=(sent,))
    run.add(
        PERMIT,
        GangCommitted(5, 2, pack([13]), pack([1]), 1),
        inputs=(PodsGone(pack([11, 12])),),
    )
    assert run.found() == [
        "gang-whole: permit/0 at 2: gang 5: 1 members beside 0 that run, 3 needed"
    ]


def pod(**more) -> PodTruth:
    spec = PodSpec(requests=(("cpu", 1_000),), **more)
    return PodTruth(uid="p", namespace="default", name="p", spec=spec)


def test_room_counts_in_one_domain_that_holds_all_homes():
    nodes = [rack_node("n1", rack="r"), rack_node("n2", rack="s"), rack_node("n3", rack="s")]
    cluster = Cluster([*nodes, rack_node("n4")], {f"n{at}": Load() for at in range(1, 5)})
    assert cluster.domain_with_room(RACK, pod(), 2, ()) == "s"
    assert cluster.domain_with_room(RACK, pod(), 3, ()) is None
    assert cluster.domain_with_room(RACK, pod(), 2, {"n1"}) is None
    assert cluster.domain_with_room(Topology(("rack",), 0, -1), pod(), 4, ()) == "the whole cluster"
    assert cluster.domain_with_room(Topology(("rack",), 0, -1), pod(), 5, ()) is None


def test_a_spread_counts_the_domain_only():
    web = (Requirement("app", "In", ("web",)),)
    spread = {"spread": (SpreadConstraint("zone", 1, selector=web),), "labels": (("app", "web"),)}
    nodes = [rack_node("n1", rack="r", zone="x"), rack_node("n2", rack="s", zone="y")]
    nodes += [rack_node("n3", rack="s", zone="y")]
    loads = {node.name: Load() for node in nodes}
    cluster = Cluster(nodes, loads, is_ruled=True)
    assert cluster.domain_with_room(RACK, pod(**spread), 2, ()) == "s"
    apart = {"pod_anti_affinity": (PodTerm("zone", web),), "labels": (("app", "web"),)}
    assert cluster.domain_with_room(RACK, pod(**apart), 2, ()) is None
    ledger = Ledger(SHARD, nodes=dict(enumerate(nodes)), loads=dict(enumerate(loads.values())))
    ledger.specs[1] = pod(**spread).spec
    ledger.put(1, ledger.specs[1], 1)
    wide = ledger.around(ledger.specs[1])
    near = ledger.around(ledger.specs[1], within=(("rack",), ("s",)))
    assert wide is not None
    assert wide.obstacle(nodes[2]) == "spread over zone"
    assert near is not None
    assert near.obstacle(nodes[2]) is None
