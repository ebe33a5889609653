"""`muster replay` and `muster story` on a run that `muster run` left in SQLite: intact, then
damaged.

Each unusable input gives one line or a position, the right exit code, and an unchanged file.
"""

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from muster.app.journals import all_journals
from muster.cli.commands.replay import replay_run
from shared.machine.record import decode
from shared.model.ids import BINDING, INGEST, QUEUEING, JournalName
from shared.scheduling.plugins.node_resources_fit import LeastAllocated
from tests.e2e.console import Ran, complaint, muster, run_of_examples
from tests.e2e.newer_journals import (
    SAYS_CLAIM,
    SAYS_EVENT,
    SAYS_FORMAT,
    alter,
    newer_claim,
    newer_event,
)
from tests.support.other_machines import OTHER_MACHINES, features_left

POD = "web-1"
JOURNALS = all_journals(1)
READERS = (("replay",), ("story", f"pod/{POD}"))
WHY = ("why", "pod", f"default/{POD}")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("recorded-run")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the directory of a run with snapshots and a compressed record."""
    return run_of_examples(tmp_path_factory.mktemp("recorded") / "run")


@pytest.fixture
def harmed(run, tmp_path):
    """Return a copy of the run that a test may damage."""
    shutil.copytree(run, tmp_path / "harmed")
    return tmp_path / "harmed"


def change(folder: Path, journal: JournalName, size: str, alter: Callable[[bytes], bytes]) -> int:
    """Alter the stored bytes of a journal's first compressed or plain record; return its
    position.
    """
    with sqlite3.connect(folder / "journals.db") as connection:
        tables = dict(connection.execute("SELECT name, id FROM journals"))
        table = f"journal_{tables[journal]}"
        position, stored = connection.execute(
            f"SELECT position, payload FROM {table} WHERE size_bytes {size} AND position > 0"
        ).fetchone()
        connection.execute(
            f"UPDATE {table} SET payload=? WHERE position=?", (alter(stored), position)
        )
    connection.close()
    return int(position)


def only_complaint(ran: Ran) -> str:
    """Check that a failed command printed one line on standard error and nothing else;
    return it.
    """
    assert ran.out == ""
    return complaint(ran, 1)


def one_bit(stored: bytes) -> bytes:
    middle = len(stored) // 2
    return stored[:middle] + bytes([stored[middle] ^ 4]) + stored[middle + 1 :]


@pytest.mark.parametrize("begin", ["start", "newest", "each"])
def test_a_run_replays_identically(run, begin):
    result = muster("replay", run, "--from", begin, "-o", "json")
    assert result.code == 0, result
    journals = result.json()["journals"]
    assert {one["journal"] for one in journals} == set(JOURNALS)
    assert all(one["ok"] for one in journals)
    assert sum(one["snapshots"] for one in journals) > 0
    if begin == "each":
        assert any(one["start"] > 0 for one in journals)


@pytest.mark.parametrize("environ", OTHER_MACHINES, ids=str)
def test_other_hash_seeds_and_processors_replay_the_same(run, environ):
    assert not features_left(environ)
    result = muster("replay", run, "--from", "each", "-o", "json", **environ)
    assert result.code == 0, result
    journals = result.json()["journals"]
    assert all(one["ok"] for one in journals)
    assert {one["journal"] for one in journals if one["start"] == 0} == set(JOURNALS)
    assert any(one["start"] > 0 for one in journals)


def test_a_replay_is_plain_text_when_piped(run):
    result = muster("replay", run, "--journal", "placement/0")
    assert result.code == 0
    assert "identical" in result.out
    assert "\x1b" not in result.out


def test_a_flipped_bit_is_reported_with_its_position(harmed):
    position = change(harmed, QUEUEING, "< 0", one_bit)
    path = harmed / "journals.db"
    line = f"{path}: queueing/0 at {position}: checksum does not match: the record was damaged"
    for words in READERS:
        assert only_complaint(muster(*words, harmed)) == f"muster: {line}"


def test_a_damaged_compressed_record_is_reported(harmed):
    position = change(harmed, INGEST, ">= 0", lambda stored: b"\0" + stored[1:])
    path = harmed / "journals.db"
    where = f"{path}: journal ingest/0: position {position} is damaged"
    for words in READERS:
        assert where in only_complaint(muster(*words, harmed))


def test_a_record_of_a_newer_version_is_reported(harmed):
    position = change(harmed, BINDING, "< 0", lambda stored: b"M9" + stored[2:])
    where = f"{harmed / 'journals.db'}: binding/0 at {position}: "
    for words in (*READERS, ("replay", "--journal", "binding/0", "-o", "json")):
        line = only_complaint(muster(*words, harmed))
        assert where + SAYS_FORMAT in line


@pytest.mark.parametrize(
    ("position", "change", "says"),
    [(0, newer_claim, SAYS_CLAIM), (3, newer_event, SAYS_EVENT)],
    ids=["claim", "event"],
)
def test_what_a_newer_version_claims_or_decides_is_reported(harmed, position, change, says):
    shutil.rmtree(harmed / "snapshots")  # so that `why` folds from the start
    path = harmed / "journals.db"
    alter(path, QUEUEING, position, change)
    for words in (*READERS, WHY):
        line = only_complaint(muster(*words, harmed))
        assert f"{path}: queueing/0 at {position}: {says}" in line


def test_readers_leave_a_finished_run_as_it_is(run):
    def files():
        return {path: path.is_dir() or path.read_bytes() for path in run.rglob("*")}

    before = files()
    for words in (*READERS, WHY):
        assert muster(*words, run).code == 0
        assert files() == before


def test_a_truncated_file_is_one_line(harmed):
    path = harmed / "journals.db"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    before = path.read_bytes()
    for words in (*READERS, WHY):
        assert str(path) in only_complaint(muster(*words, harmed))
    assert path.read_bytes() == before


def test_a_changed_score_is_reported_with_the_story_of_a_pod(run, monkeypatch, capsys):
    score, scores = LeastAllocated.score, LeastAllocated.scores
    monkeypatch.setattr(LeastAllocated, "score", lambda *args: 100 - score(*args))
    monkeypatch.setattr(LeastAllocated, "scores", lambda *args: 100 - scores(*args))
    assert replay_run(run, "", 1, "start", [], "text") == 1
    lines = capsys.readouterr().out.splitlines()
    (found,) = [line for line in lines if "decided now" in line]
    assert found.startswith("placement/0 at ")
    story = lines[lines.index("what the first one is about:") + 1 : -1]
    assert "ingest/0" in story[0]
    assert any("seen" in line for line in story[:2]), "the group first, if it has one"
    assert "reserved" in story[-1] or "holds" in story[-1]
    position = found.split()[2].rstrip(":")
    assert f"placement/0 {position} " in story[-1]


def test_a_story_is_printed_as_a_trace(run):
    trace = muster("story", f"pod/{POD}", run, "-o", "otlp").json()
    services = [
        one["value"]["stringValue"]
        for resource in trace["resourceSpans"]
        for one in resource["resource"]["attributes"]
    ]
    assert services == [
        "muster", "muster-ingest", "muster-queueing", "muster-placement", "muster-binding"
    ]  # fmt: skip
    assert muster("story", f"pod/{POD}", run, "-o", "xml").code == 2


def test_a_story_runs_from_seen_to_bound(run):
    result = muster("story", f"pod/{POD}", run)
    assert result.code == 0
    head, *lines = result.out.splitlines()
    assert head.startswith("times are since the first record, 20")
    assert re.match(r"\+\d+\.\d{3} s  ingest/0 ", lines[0])
    assert any(f"bound default/{POD} on " in line for line in lines)
    (end,) = [line for line in lines if line.split("  ", 2)[2].startswith("bound ")]
    node = end.rpartition(" ")[2]
    of_node = muster("story", f"node/{node}", run).out.splitlines()
    assert of_node[0] == head
    record = end.split("  ")[:2]
    assert record in [line.split("  ")[:2] for line in of_node], "the same record, the same time"
    story = json.loads(muster("story", f"pod/{POD}", run, "-o", "json").out)
    assert [one["text"] for one in story] == [line.split("  ", 2)[2] for line in lines]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("replay", "nowhere"), "nowhere: holds no run (journals.db is missing)"),
        (("replay", "RUN", "--from", "7"), "--from 7: must be one of start, newest, each"),
        (("replay", "RUN", "--journal", "x/0"), "--journal x/0: must be one of ingest/0"),
        (("replay", "RUN", "-o", "yaml"), "--output yaml: must be one of text, json"),
        (("story", "pod/nobody", "RUN"), "pod/nobody: no pod of this name in the world journal"),
        (("story", "pod", "RUN"), "must be [KIND/][NAMESPACE/]NAME, with a KIND of pod, gang"),
    ],
)
def test_unusable_arguments_get_one_line(run, words, line):
    assert line in complaint(muster(*(run if word == "RUN" else word for word in words)), 2)


def test_the_run_has_what_these_tests_need(run):
    with sqlite3.connect(run / "journals.db") as connection:
        tables = dict(connection.execute("SELECT name, id FROM journals"))
        stored = connection.execute(
            f"SELECT count(*) FROM journal_{tables['ingest/0']} WHERE size_bytes >= 0"
        ).fetchone()
        payload = connection.execute(
            f"SELECT payload FROM journal_{tables['binding/0']} WHERE position=0"
        ).fetchone()[0]
    connection.close()
    assert stored[0] > 0
    assert decode(payload, BINDING, 0).claim is not None
    assert msgspec.json.decode((run / "meta.json").read_bytes())["placements"] == 1
