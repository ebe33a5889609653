"""What a run's journals say of a pod, although they are read in turn."""

import asyncio

from muster.explain.tally import Tally
from shared.bus.memory import MemoryBus, MemoryLog
from shared.events.base import Event
from shared.events.binding import Bound
from shared.events.ingest import GangSet, PodsNamed, PodsPending
from shared.events.placement import GangHeld, Reserved
from shared.events.queueing import GangWaits
from shared.machine.record import Claim, Record, encode, slice_events
from shared.model.columns import pack
from shared.model.ids import (
    BINDING,
    INGEST,
    QUEUEING,
    AttemptId,
    GangId,
    JournalName,
    Position,
    SignatureId,
    placement,
)

CLAIM = Claim("owner", "nonce", 1)
POD, HELD_NODE, NODE = 1, 20, 10


def tallied(journals: dict[JournalName, list[Event]]) -> Tally:
    async def read() -> Tally:
        bus = MemoryBus(MemoryLog())
        for journal, events in journals.items():
            await bus.append(journal, Position(0), encode(Record(-1, 0, 1, claim=CLAIM)))
            record = Record(0, 1, 1, slices=slice_events(events))
            await bus.append(journal, Position(1), encode(record))
        tally = Tally(bus, list(journals))
        await tally.catch_up()
        return tally

    return asyncio.run(read())


def test_members_of_a_tree_wait_with_the_message_of_its_root():
    root, leaf = GangId(1), GangId(2)
    tally = tallied(
        {
            INGEST: [
                PodsNamed(pack([POD]), "uid", "name", pack([1])),
                GangSet(leaf, "default/leaf", 1, 0, 1, root=root),
                PodsPending(SignatureId(1), pack([POD]), gang=leaf),
            ],
            QUEUEING: [GangWaits(root, "the root waits")],
        }
    )
    assert tally.message(POD) == "the root waits"


def test_a_pod_has_the_devices_of_the_node_where_it_is_bound():
    """Another shard held it for a gang before that gave it back."""
    pod, zero = pack([POD]), pack([0])
    reserved = Reserved(
        *(0, AttemptId(2), SignatureId(1), pod, pack([NODE]), zero, 1, Position(0)),
        devices=pack([0b0011]),
    )
    held = GangHeld(
        *(1, GangId(1), AttemptId(1), pod, pack([1]), pack([HELD_NODE]), zero, Position(0)),
        devices=pack([0b1100]),
    )
    tally = tallied(
        {
            INGEST: [PodsNamed(pod, "uid", "name", pack([1]))],
            placement(0): [reserved],
            placement(1): [held],
            BINDING: [Bound(pod, pack([NODE]))],
        }
    )
    assert tally.pods[POD].device_mask == 0b0011
