"""Stories for people: every event type has its line, and a story is complete and in order."""

import re
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from shared.events.base import Event
from shared.events.binding import Bound
from shared.events.describe import TABLE, View, describe
from shared.events.ingest import (
    NodesSet,
    PodsNamed,
    ProvisioningSet,
    SignatureDefined,
    SignatureRetired,
    SignaturesQueued,
)
from shared.events.names import Names, NoSuchName, Subject, concerns
from shared.events.placement import Reserved
from shared.events.queueing import GangWaits, LaneTaken
from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import own_events
from shared.model.cluster_objects import ProvisioningRequest
from shared.model.columns import pack, size, unpack
from shared.model.ids import GangId, PodId
from shared.model.objects import Node
from shared.replay.causal import causal
from shared.replay.story import read_names, story
from tests.replay.recorded_run import JOURNALS, recorded
from tests.support.examples import all_event_types, example

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replay")]


@pytest.fixture(scope="module")
def run():
    return recorded(3)


TYPES = sorted({kind for _service, kind in all_event_types()}, key=lambda kind: kind.__name__)

ABOUT_SIGNATURES = (SignatureDefined, SignatureRetired, SignaturesQueued)
EMPTY: dict[Any, dict[str, Any]] = {
    GangWaits: {"message": ""},
    LaneTaken: {"until_ms": 1_690_000_000_000},
}


THINGS = (
    *("pods", "nodes", "members", "victims", "candidates", "places", "shards", "objects"),
    *("budgets", "disruptions", "pod groups", "images", "namespaces", "deletes", "signatures"),
)


class PodsStuck(Event, frozen=True):
    """An event without a line of its own."""

    sig: int
    ids: bytes
    gang: int = 0
    node: int = 0
    reason: str = ""
    again: bool = False


def test_an_event_without_a_line_is_described_by_its_fields():
    names = Names(pods={PodId(1): "default/web-1"}, gangs={GangId(4): "default/huge"})
    event = PodsStuck(3, pack([1, 2]), gang=4, node=5, reason="no room", again=True)
    said = "signature 3, default/web-1, pod 2, default/huge, node 5, reason no room, again"
    assert describe(event, View(names)) == f"pods stuck: {said}"
    assert describe(PodsStuck(3, b""), View(names)) == "pods stuck: signature 3"


def test_the_story_of_a_gang_has_what_the_autoscaler_says():
    request = ProvisioningRequest(uid="u", name="train", gang="default/train", phase="Accepted")
    event = ProvisioningSet((request,))
    for key in ("default/train", "default/other"):
        gang = Subject("gang", key, frozenset([4]), frozenset([key]))
        assert concerns(event, gang, Names()) == (key == request.gang)
    assert describe(event, View(Names())) == "ProvisioningRequest train: Accepted"


def test_no_line_is_left_of_an_event_that_was_removed():
    assert set(TABLE) <= set(TYPES)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_every_event_is_described_in_one_line(kind):
    event = example(kind)
    for subject in (
        None,
        *(Subject(kind, "x", frozenset([1])) for kind in ("pod", "node", "gang")),
    ):
        text = describe(event, View(Names(), subject))
        assert text
        assert "\n" not in text
        if subject is not None:
            concerns(event, subject, Names())


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_no_line_has_numbers_of_effects_and_signatures_or_raw_times(kind):
    text = describe(replace(example(kind), **EMPTY.get(kind, {})), View(Names()))
    if kind not in ABOUT_SIGNATURES:
        assert not re.search(r"\b(effect|signature) \d|\b1[67]\d{11}\b", text), text
    assert not text.rstrip().endswith(":"), text


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_one_thing_is_not_told_as_many(kind):
    event = example(kind)
    ones: dict[type, Any] = {int: 1, bytes: pack([1])}
    values = ((name, getattr(event, name)) for name in event.__struct_fields__)
    single = replace(event, **{name: ones.get(type(value), value) for name, value in values})
    text = describe(single, View(Names()))
    assert not re.search(rf"(?<!/)\b1 ({'|'.join(THINGS)})\b", text), text


async def test_nothing_comes_before_its_cause(run):
    passed = dict.fromkeys(JOURNALS, 0)
    count = 0
    async for journal, position, record in causal(run.bus(), JOURNALS):
        assert position >= passed[journal]
        passed[journal] = position + 1
        count += 1
        for part in record.consumed:
            valid = [at for at in valid_positions(part.journal) if at < part.stop]
            assert not valid or passed[part.journal] > valid[-1]
    assert count == sum(len(valid_positions(journal)) for journal in JOURNALS)


@cache
def valid_positions(journal):
    run = recorded(3)
    found = Reader(journal, Cursor()).accept_all(list(enumerate(run.records[journal])))
    return [position for position, _record in found]


async def bound(run):
    """Return a pod that was bound alone: few names are printed in full."""
    async for journal, position, record in causal(run.bus(), JOURNALS):
        for event in own_events(record, journal, position):
            if isinstance(event, Bound) and size(event.ids) == 1:
                return int(unpack(event.ids)[0]), int(unpack(event.nodes)[0]), position
    raise AssertionError("nothing was bound")


async def test_a_pods_story_runs_from_seen_to_bound(run):
    pod, node, position = await bound(run)
    names = await read_names(run.bus())
    lines = [line async for line in story(run.bus(), JOURNALS, f"pod/{names.pods[pod]}")]
    text = [f"{line.journal.partition('/')[0]}: {line.text}" for line in lines]
    stages = ["ingest: cluster: ", "queueing: ", "placement: ", "binding: bind ", "binding: bound "]
    found = [next(row for row, words in enumerate(text) if words.startswith(s)) for s in stages]
    assert found == sorted(found), text
    assert f"bound {names.pods[pod]} on {names.nodes[node]}" in lines[found[-1]].text
    assert lines[found[-1]].position == position


async def test_a_nodes_story_has_its_pods(run):
    pod, node, _position = await bound(run)
    names = await read_names(run.bus())
    lines = [line async for line in story(run.bus(), JOURNALS, f"node/{names.nodes[node]}")]
    name = names.nodes[node]
    assert any(line.text.startswith(f"cluster: {name} (and ") for line in lines)
    assert any(re.fullmatch(rf"{name} \(and .*\) set in shard \d", line.text) for line in lines)
    assert any(line.text.startswith("bound ") and names.pods[pod] in line.text for line in lines), (
        "the pod's name is said where there are few"
    )


async def test_a_gangs_story_includes_its_end(run):
    names = await read_names(run.bus())
    ends = ("committed over", "released", "timed out")
    told = 0
    for key in sorted(set(names.gangs.values())):
        lines = [line async for line in story(run.bus(), JOURNALS, f"gang/{key}")]
        assert any("minCount" in line.text for line in lines)
        told += any(end in line.text for line in lines for end in ends)
    assert told > 0


@pytest.mark.parametrize("words", ["pod/nobody", "gang/none", "node/nowhere", "pod", "what/x"])
async def test_unknown_names_are_named(run, words):
    with pytest.raises(NoSuchName, match=words):
        async for _line in story(run.bus(), JOURNALS, words):
            pass


def test_a_name_of_several_namespaces_must_be_whole():
    names = Names()
    for number, namespace in enumerate(("blue", "green"), start=1):
        names.learn(PodsNamed(pack([number]), f"u{number}", "web", pack([1]), namespace))
    with pytest.raises(NoSuchName, match="pod/web: may be blue/web, green/web: name one, or its"):
        names.find("pod/web")
    assert names.find("pod/green/web").ids == {2}
    assert names.find("pod/web", "blue").ids == {1}
    with pytest.raises(NoSuchName, match="pod/web: no pod of this name in namespace red"):
        names.find("pod/web", "red")


def test_a_line_speaks_of_its_subject():
    names = Names()
    names.learn(PodsNamed(pack([1, 2]), "u1\nu2", "a\nb", pack([1, 1])))
    names.learn(NodesSet(0, pack([7, 8]), (Node(uid="n7", name="m"), Node(uid="n8", name="n"))))
    event: Event = Reserved(0, 3, 1, pack([1, 2]), pack([7, 8]), b"\x05\x00\x06\x00", 9, 4)
    tail = ", 9 nodes feasible (attempt 3)"
    lines = {
        "pod/b": f"reserved default/b on n: score 6{tail}",
        "node/n": f"reserved default/b on n: score 6{tail}",
        "node/m": f"reserved default/a on m: score 5{tail}",
    }
    for words, line in lines.items():
        assert describe(event, View(names, names.find(words))) == line
    nobody = describe(event, View(names))
    assert nobody == f"reserved default/a, default/b on 2 nodes: score 5{tail}"
