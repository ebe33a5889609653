"""World arguments of the command line: the worlds that they name, and messages for wrong ones."""

import hashlib
from fractions import Fraction

import pytest

from shared.kubernetes.objects.errors import WorldError
from shared.model.columns import split
from shared.worlds.settings import Choice, data_root, load_world
from shared.worlds.traces.openb import PLAIN_POD_FILE
from shared.worlds.traces.published import FILES
from tests.unit.worlds.manifests import pod


def count(chosen):
    return sum(len(split(arrival.pods.names)) for arrival in chosen.world.arrivals)


def test_openb_is_the_main_job_unless_plain(openb):
    main = load_world([f"openb:{openb},latecomers=5"], Choice())
    assert count(main) == 9
    assert not main.is_main_job, "a trace of one's own is not held to the counts"
    plain = load_world([f"openb:{openb}"], Choice(plain=True))
    assert not plain.is_main_job
    assert count(plain) == 4


def test_timed_openb_is_not_held_to_the_main_jobs_counts(openb):
    chosen = load_world([f"openb:{openb},latecomers=5,repeat=2"], Choice(speed="10"))
    assert not chosen.is_main_job
    assert count(chosen) == 13


def test_options_are_defaults_for_the_worlds_arguments(openb):
    by_option = load_world([f"openb:{openb}"], Choice(plain=True, speed="10"))
    by_word = load_world([f"openb:{openb},speed=10"], Choice(plain=True, speed="99"))
    assert by_option.world == by_word.world


def test_dlrm_and_flood_are_read(dlrm):
    assert count(load_world([f"dlrm:{dlrm}"], Choice())) == 4
    flood = load_world(["flood:pods=7,nodes=2,cpu=2,memory=1Gi,node-cpu=8"], Choice(seed=3))
    assert count(flood) == 7
    assert flood.world.arrivals[0].pods.spec.requests == (("cpu", 2000), ("memory", 1 << 30))
    assert flood.world.nodes[0].allocatable[0] == ("cpu", 8000)


def test_several_paths_are_one_world(tmp_path):
    import yaml

    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(pod(name)))
    paths = [str(tmp_path / "b.yaml"), str(tmp_path / "a.yaml")]
    assert count(load_world(paths, Choice())) == 2


def test_the_data_folder_is_named_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("MUSTER_DATA", str(tmp_path))
    assert data_root() == tmp_path
    monkeypatch.delenv("MUSTER_DATA")
    assert data_root().parts[-2:] == ("shared", "data")


@pytest.mark.parametrize(
    ("word", "choice", "names"),
    [
        ("openb:", Choice(), ["openb_node_list_all_node.csv", "openb_pod_list_gpuspec33.csv"]),
        ("openb:", Choice(plain=True), ["openb_node_list_all_node.csv", PLAIN_POD_FILE]),
        ("openb:pods=mine.csv", Choice(), ["openb_node_list_all_node.csv"]),
        ("dlrm:", Choice(), ["disaggregated_DLRM_trace.csv"]),
        ("flood:shapes=openb", Choice(), [PLAIN_POD_FILE]),
    ],
)
def test_a_missing_trace_is_named_with_where_to_get_it(monkeypatch, tmp_path, word, choice, names):
    monkeypatch.setenv("MUSTER_DATA", str(tmp_path))
    with pytest.raises(WorldError) as raised:
        load_world([word], choice)
    text = str(raised.value)
    assert text.startswith(f"{tmp_path}/{'dlrm2025' if word == 'dlrm:' else 'openb'}: lacks ")
    assert [name for name in FILES if name in text] == [name for name in FILES if name in names]
    for name in names:
        assert f"{name} ({FILES[name].size_bytes:,} bytes, sha256 {FILES[name].sha256})" in text
    origin = FILES[names[0]].origin
    assert f"the folder {origin} of https://github.com/alibaba/clusterdata: put it there" in text


def test_only_the_files_that_are_missing_are_named(openb):
    (openb / PLAIN_POD_FILE).unlink()
    with pytest.raises(WorldError, match=r": lacks openb_pod_list_default\.csv \(575,468 bytes"):
        load_world([f"openb:{openb}"], Choice(plain=True))


def test_sizes_and_checksums_are_those_of_the_published_files(data):
    for path in (path for path in data.rglob("*.csv") if path.name in FILES):
        content = path.read_bytes()
        known = FILES[path.name]
        found = (len(content), hashlib.sha256(content).hexdigest())
        assert found == (known.size_bytes, known.sha256), path
    assert load_world([f"openb:{data / 'openb'}"], Choice()).is_main_job


@pytest.mark.parametrize(
    ("words", "choice", "line"),
    [
        (["flood:pods=x"], Choice(), "flood:pods=x: pods: 'x' is not a whole number within"),
        (["flood:pods=-1"], Choice(), "flood:pods=-1: pods: '-1' is not a whole number"),
        (["flood:pods"], Choice(), "flood:pods: pods: must be key=value"),
        (["flood:pods=1,pods=2"], Choice(), "pods: is given twice"),
        (["flood:cows=1"], Choice(), "flood:cows=1: cows: is an unknown setting"),
        (["flood:pod=1"], Choice(), "pod: is an unknown setting; did you mean pods?"),
        (["floood:pods=1"], Choice(), "floood:pods=1: does not exist; did you mean flood:?"),
        (["nowhere:x"], Choice(), "nowhere:x: does not exist"),
        (["flood:shapes=round"], Choice(), "shapes: 'round' is not one of identical"),
        (["flood:cpu=1e400"], Choice(), "cpu: '1e400' is out of range"),
        (["flood:"], Choice(speed="3"), "flood:: --speed: is for traces only"),
        (["flood:", "openb:"], Choice(), "openb:: cannot be joined with flood:"),
        (["openb:x,speed=0"], Choice(), "speed: must be more than 0"),
        (["openb:x,speed=fast"], Choice(), "speed: 'fast' is not a quantity"),
        (["openb:x,latecomers=2"], Choice(plain=True), "latecomers: is an unknown setting"),
        (["openb:x,gang-timeout=soon"], Choice(), "gang-timeout: 'soon' is not a duration"),
        (["dlrm:x,rate=3"], Choice(), "rate: is an unknown setting"),
        (["nowhere"], Choice(), "nowhere: does not exist"),
        (["nowhere"], Choice(speed="3"), "nowhere: --speed: is for traces only"),
        ([], Choice(), "world: name one"),
        ([""], Choice(), "world: name one"),
        (["a", ""], Choice(), "world: name one"),
    ],
)
def test_unknown_arguments_get_one_line(words, choice, line):
    with pytest.raises(WorldError) as raised:
        load_world(words, choice)
    assert line in str(raised.value)


def test_speeds_are_exact(openb):
    chosen = load_world([f"openb:{openb},speed=0.5"], Choice(plain=True))
    assert chosen.world.arrivals[-1].at_ms == int(20_000 / Fraction(1, 2))
