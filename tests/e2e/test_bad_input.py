"""Bad input: one line that names file, field and rule, the right exit code, and nothing changed."""

import shutil
from pathlib import Path

import pytest
import yaml

from shared.model.ids import PERMIT
from tests.e2e.console import complaint, muster
from tests.e2e.newer_journals import (
    SAYS_CLAIM,
    SAYS_EVENT,
    SAYS_FORMAT,
    alter,
    newer_claim,
    newer_event,
    newer_format,
    prolong,
)
from tests.unit.worlds.conftest import NODES, PODS
from tests.unit.worlds.manifests import NODE, container, controller, pod

WORKLOAD = {
    "apiVersion": "scheduling.k8s.io/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "w"},
    "spec": {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": 2}}}]},
}
REF = {"workloadRef": {"name": "w", "podGroup": "g"}}
BIG = [pod(f"m{n}", containers=[container(cpu="5")], **REF) for n in range(2)]
# A port without a listener (discard, reserved).
NOBODY = "127.0.0.1:9"


def untouched(folder: Path, before: set[Path]) -> bool:
    return set(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("objects", "line"),
    [
        ([controller("Deployment", "x", replica=3)], "spec.replica: is an unknown field"),
        ([pod(containers=[container(cpu="-1")])], "requests.cpu: '-1' is negative"),
        ([pod(), pod()], "Pod default/p: metadata.name: is a duplicate of"),
        ([pod(containers=[container(memory="1e400")])], "requests.memory: '1e400' is out of range"),
        ([pod(containers=[container(memory="lots")])], "requests.memory: 'lots' is not a quantity"),
        (
            [NODE, WORKLOAD, *BIG],
            "policy.gang.minCount: 2 members ask for 10000 cpu, the whole cluster has 8000",
        ),
    ],
    ids=["unknown-field", "negative", "duplicate", "range", "quantity", "gang"],
)
def test_bad_manifests(tmp_path, objects, line):
    path = tmp_path / "in.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    before = set(tmp_path.rglob("*"))
    text = complaint(muster("run", path, "--run-dir", tmp_path / "run"), 2)
    assert str(path) in text
    assert line in text
    assert untouched(tmp_path, before)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("qos", "class", "row 1: class: is an unknown column"),
        ("pod-b,1000", "pod-b,-5", "row 3: cpu_milli: -5 is negative"),
        ("pod-b", "pod-a", "row 3: name: 'pod-a' is a duplicate of row 2"),
        ("pod-b,1000", "pod-b,few", "row 3: cpu_milli: 'few' is not a whole number"),
    ],
    ids=["unknown-column", "negative", "duplicate", "number"],
)
def test_bad_traces(tmp_path, old, new, line):
    (tmp_path / "openb_node_list_all_node.csv").write_text(NODES)
    path = tmp_path / "openb_pod_list_gpuspec33.csv"
    path.write_text(PODS.replace(old, new, 1))
    before = set(tmp_path.rglob("*"))
    text = complaint(muster("run", f"openb:{tmp_path}", "--run-dir", tmp_path / "run"), 2)
    assert f"{path} {line}" in text
    assert untouched(tmp_path, before)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run"], "run: name a WORLD or a --kubeconfig"),
        (["run", "flood:", "--kubeconfig", "k"], "run: name a WORLD or a --kubeconfig"),
        (["run", "--kubeconfig", "nowhere"], "--kubeconfig nowhere: does not exist"),
        (["run", "--kubeconfig", "/dev/null"], "--kubeconfig /dev/null: is no file; it is read"),
        (
            ["run", "--kubeconfig", "k", "--seed", "1"],
            "--seed: cannot be combined with --kubeconfig",
        ),
        (["run", "nowhere"], "nowhere: does not exist"),
        (["run", "flood:", "--colour"], "No such option: --colour"),
        (["run", "flood:", "-p", "0"], "Invalid value for '--placements'"),
        (["run", "flood:", "--bus", "pigeon"], "--bus pigeon: must be one of sqlite, memory"),
        (["run", "flood:", "--set", "queueing.speed=9"], "queueing.speed"),
        (["run", "flood:pods=few"], "flood:pods=few: pods: 'few' is not a whole number"),
        (["fly"], "No such command 'fly'"),
        (["serve", "cooking", "--bus", "sqlite:x.db"], "cooking: must be one of all, ingest/0"),
        (["serve", "queueing", "--bus", "tin-cans"], "--bus tin-cans: must be kafka://"),
        (["serve", "ingest", "--bus", "sqlite:x.db"], "--kubeconfig: is required"),
    ],
    ids=lambda value: "-".join(value)[:40] if isinstance(value, list) else "",
)
def test_bad_usage(tmp_path, words, line):
    assert line in complaint(muster(*words, cwd=tmp_path), 2)
    assert untouched(tmp_path, set())


def test_a_run_is_never_written_over(tmp_path):
    (tmp_path / "journals.db").write_bytes(b"")
    text = complaint(muster("run", "flood:pods=1", "--run-dir", tmp_path), 2)
    assert f"--run-dir {tmp_path}: holds a run already" in text
    assert (tmp_path / "journals.db").read_bytes() == b""


def served(tmp_path: Path, path: Path, *services: str) -> str:
    options = ("--bus", f"sqlite:{path}", "--run-dir", tmp_path / "run")
    # As the owner that wrote them, which need not wait until the journals are silent.
    words = ("serve", *(services or ["queueing"]), *options, "--owner", "muster")
    return complaint(muster(*words), 1)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small") / "run"
    assert muster("run", "flood:pods=20,nodes=2", "--run-dir", folder).code == 0
    return folder


@pytest.fixture
def journals(tmp_path, small_run):
    """Return the journal file of a small run, for a test to damage."""
    return Path(shutil.copytree(small_run, tmp_path / "kept")) / "journals.db"


def test_a_truncated_journal_file(tmp_path, journals):
    content = journals.read_bytes()
    journals.write_bytes(content[: len(content) // 2 + 100])
    before = journals.read_bytes()
    assert str(journals) in served(tmp_path, journals)
    assert journals.read_bytes() == before


@pytest.mark.parametrize(
    ("journal", "position", "change", "line"),
    [
        ("queueing/0", 0, newer_format, SAYS_FORMAT),
        ("queueing/0", 0, newer_claim, SAYS_CLAIM),
        ("queueing/0", 1, newer_format, SAYS_FORMAT),
        ("queueing/0", 1, newer_event, SAYS_EVENT),
        ("queueing/0", -1, newer_event, SAYS_EVENT),
        ("ingest/0", 0, newer_claim, SAYS_CLAIM),
        ("ingest/0", 1, newer_format, SAYS_FORMAT),
        ("ingest/0", -1, newer_format, SAYS_FORMAT),
        ("ingest/0", -1, newer_event, SAYS_EVENT),
    ],
    ids=lambda value: getattr(value, "__name__", str(value))[:16],
)
def test_a_journal_from_a_newer_version(tmp_path, journals, journal, position, change, line):
    """Nothing changes, wherever it lies: far from the end of the own journal, among what was
    consumed of a source, or (position -1) behind it.
    """
    prolong(journals, journal, 100)
    at = alter(journals, journal, position, change)
    before = journals.read_bytes()
    assert f"{journals}: {journal} at {at}: {line}" in served(tmp_path, journals)
    assert journals.read_bytes() == before


def test_no_journal_is_claimed_before_all_can_be_read(tmp_path, journals):
    prolong(journals, PERMIT, 100)
    alter(journals, PERMIT, 0, newer_claim)
    before = journals.read_bytes()
    text = served(tmp_path, journals, "queueing", "permit")
    assert f"{journals}: permit/0 at 0: {SAYS_CLAIM}" in text
    assert journals.read_bytes() == before


def test_an_unreachable_broker(tmp_path):
    address = f"kafka://{NOBODY}/p?connect_timeout_ms=500"
    words = ("serve", "queueing", "--bus", address, "--run-dir", tmp_path / "run")
    text = complaint(muster(*words), 1)
    assert f"Kafka at {NOBODY}" in text
    assert "check that the broker runs" in text
