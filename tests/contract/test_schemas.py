"""Published formats: the schemas are those of the types, and old records can always be decoded."""

import base64
import json
import zlib
from pathlib import Path

import msgspec
import pytest

from muster.app.journals import all_journals
from muster.app.mesh import make_core
from muster.generate import diagrams, reference
from muster.generate.schemas import ROOT, generate
from muster.simulation.scenario import PLACEMENTS
from shared.events import EVENTS, Observation
from shared.machine.fold import SNAPSHOT_VERSION, Folded, restore_newest, state_hash
from shared.machine.record import FORMAT, Record, decode
from shared.model.ids import SERVICES, JournalName
from shared.ports.snapshots import SnapshotMeta
from shared.snapshots.memory import MemorySnapshots
from tests.contract.add_golden import RECORDS
from tests.contract.add_snapshots import as_now, body_of, kept, newest, readable, version_of
from tests.support.examples import all_event_types, example

GOLDEN = Path(ROOT) / "golden" / "events-1.jsonl"


@pytest.mark.parametrize("name", sorted(generate()))
def test_the_committed_schema_is_that_of_the_types(name):
    assert (ROOT / name).read_text() == generate()[name], "run 'make schemas' and look at the diff"


def test_every_schema_has_a_type():
    paths = [*ROOT.glob("*.json"), *ROOT.glob("outputs/*")]
    found = {str(path.relative_to(ROOT)) for path in paths}
    assert found == generate().keys(), "remove what no type stands for"


def test_every_package_of_a_service_is_in_the_mesh():
    packages = {path.parent.name for path in (ROOT.parent / "services").glob("*/__init__.py")}
    assert packages == set(SERVICES), "name it in SERVICES in shared/model/ids.py"


@pytest.mark.parametrize("service", SERVICES)
def test_a_core_owns_its_journal_and_reads_no_shard_or_all(service):
    core = make_core(JournalName(f"{service}/0"), 3)
    assert core.journal == f"{service}/0"
    assert len([name for name in core.sources if name.startswith("placement/")]) in (0, 3)


def golden_lines() -> list[dict[str, str]]:
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]


@pytest.mark.parametrize("line", golden_lines(), ids=lambda line: f"{line['of']}-{line['type']}")
def test_golden_records_decode_for_ever(line):
    union = {**EVENTS, "observed": Observation}[line["of"]]
    decoded = msgspec.msgpack.decode(bytes.fromhex(line["msgpack"]), type=union)
    kept = msgspec.to_builtins(decoded)
    written = msgspec.msgpack.decode(bytes.fromhex(line["msgpack"]))
    for field, value in written.items():
        assert msgspec.json.encode(kept[field]) == msgspec.json.encode(value), field


@pytest.mark.parametrize("line", RECORDS.read_text().splitlines())
def test_whole_records_decode_for_ever(line):
    golden = json.loads(line)
    record = decode(bytes.fromhex(golden["payload"]), JournalName("ingest/0"), 7)
    assert msgspec.json.decode(json.dumps(golden["means"]), type=Record) == record
    assert golden["means"].keys() <= set(Record.__struct_fields__)


def test_the_format_in_use_has_a_golden_record():
    formats = [json.loads(line)["format"] for line in RECORDS.read_text().splitlines()]
    assert FORMAT.decode() in formats, "add it: python -m tests.contract.add_golden"


def test_every_event_type_has_a_golden_record():
    known = {(line["of"], line["type"]) for line in golden_lines()}
    missing = [
        (of, kind.__name__)
        for of, kind in all_event_types()
        if (of, kind.__struct_config__.tag) not in known
    ]
    assert not missing, "add them: python -m tests.contract.add_golden"


@pytest.mark.parametrize(("of", "kind"), all_event_types(), ids=str)
def test_every_event_survives_the_wire(of, kind):
    union = {**EVENTS, "observed": Observation}[of]
    event = example(kind)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=union) == event


@pytest.mark.parametrize("name", sorted(reference.pages()))
def test_the_committed_reference_is_that_of_the_code(name):
    page = (reference.FOLDER / name).read_text()
    assert page == reference.pages()[name], "run 'make schemas' and look at the diff"


def test_the_committed_diagrams_are_those_of_the_tables():
    assert diagrams.PAGE.read_text() == diagrams.page(), "run 'make schemas' and look at the diff"


@pytest.mark.parametrize("line", readable(), ids=lambda line: line["journal"])
def test_golden_snapshots_of_this_version_load_for_ever(line):
    now = as_now(line)
    assert as_now({**line, "zlib": base64.b64encode(zlib.compress(now)).decode()}) == now


@pytest.mark.parametrize("line", kept(), ids=lambda line: f"{line['journal']}-{version_of(line)}")
def test_an_owner_passes_over_golden_snapshots_of_other_versions(line):
    body, journal, version = body_of(line), line["journal"], version_of(line)
    store, folded = MemorySnapshots(), Folded(make_core(journal, PLACEMENTS))
    store.save(SnapshotMeta(journal, 7, version, state_hash(body), {}, len(body)), body)
    bad = restore_newest(folded, store)
    assert bad == (
        [f"{journal} at 7: snapshot version {version}"] if version != SNAPSHOT_VERSION else []
    )
    assert bool(folded.own_reader.next) == (version == SNAPSHOT_VERSION)


def test_each_services_snapshot_format_has_a_golden_snapshot():
    services = {journal.partition("/")[0] for journal in all_journals(1)}
    assert newest().keys() == services
    for service, line in newest().items():
        told = f"{service}: another form now: run python -m tests.contract.add_snapshots"
        assert as_now(line) == body_of(line), told
