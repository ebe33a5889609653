"""Which kube-scheduler decisions follow: what is asked, what the server says, what is refused."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from muster.cli.errors import Fault, UsageFault
from muster.cli.main import main
from muster.cli.options.release import asked_release, nearest, with_release
from shared.model.release import ReleaseOptions


@contextmanager
def cluster_of(tmp_path: Path, version: object) -> Iterator[str]:
    """Serve /version, and yield the kubeconfig of that server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/version"
            body = json.dumps(version).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        cluster = {"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        config = {
            "current-context": "a",
            "clusters": [cluster],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "users": [{"name": "a", "user": {}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        try:
            yield str(path)
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("minor", "expected"), [("35", "1.35"), ("36+", "1.36"), ("37", "1.37"), ("44", "1.37")]
)
def test_decisions_follow_the_version_of_the_api_server(tmp_path, minor, expected):
    with cluster_of(tmp_path, {"major": "1", "minor": minor}) as kubeconfig:
        assert asked_release("", "").chosen(kubeconfig).compatibility == expected


def test_a_given_version_asks_no_server():
    assert asked_release("1.36", "").chosen("nowhere").compatibility == "1.36"
    assert asked_release("", "").chosen() == ReleaseOptions()


def test_a_server_without_a_version_is_a_fault(tmp_path):
    with (
        cluster_of(tmp_path, {"major": "", "minor": ""}) as kubeconfig,
        pytest.raises(Fault, match="/version"),
    ):
        asked_release("", "").chosen(kubeconfig)


@pytest.mark.parametrize(("server", "used"), [("1.38", "1.37"), ("2.0", "1.37"), ("1.34", "1.35")])
def test_an_unknown_version_means_the_nearest_known_one_and_one_warning(caplog, server, used):
    with caplog.at_level(logging.WARNING):
        assert nearest(server) == used
    [record] = caplog.records
    assert f"Kubernetes {server}: pods are scheduled as by kube-scheduler {used}" in record.message


def test_a_known_version_is_taken_without_a_word(caplog):
    assert nearest("1.36") == "1.36"
    assert not caplog.records


def test_options_of_a_release_reach_the_services_unless_set_there():
    chosen = asked_release("1.37", "StorageCapacityScoring=false").chosen()
    found = with_release({"placement": {"compatibility": "1.36"}, "ingest": {}}, chosen)
    gates = {"feature_gates": {"StorageCapacityScoring": False}}
    both = {"compatibility": "1.37", **gates}
    expected = {"placement": {"compatibility": "1.36", **gates}, "ingest": {}}
    assert found == {**expected, "queueing": both, "preemption": both}
    assert with_release({"permit": {}}, ReleaseOptions()) == {"permit": {}}


@pytest.mark.parametrize(
    ("version", "gates", "line"),
    [
        ("1.37", "GenericWorkload", "--feature-gates GenericWorkload: must be NAME=true or"),
        ("1.37", "GenericWorkload=yes", "--feature-gates GenericWorkload=yes: must be"),
        ("1.37", "DRADerivedAttributes=true", "DRADerivedAttributes: Muster does not have it"),
        ("1.36", "CompositePodGroup=true", "CompositePodGroup: is not in 1.36, only in 1.37"),
    ],
)
def test_a_gate_that_cannot_be_used_gets_one_line(version, gates, line):
    with pytest.raises(UsageFault) as raised:
        asked_release(version, gates)
    assert line in str(raised.value)


def test_a_world_is_read_as_the_release_reads_it(tmp_path, capsys):
    taint = {"key": "level", "value": "9", "effect": "NoSchedule"}
    amounts = {"cpu": "4", "memory": "4Gi", "pods": "9"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    node |= {"spec": {"taints": [taint]}, "status": {"allocatable": amounts}}
    more = {"key": "level", "operator": "Gt", "value": "8"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod |= {"spec": {"tolerations": [more], "containers": [{"name": "c", "image": "i"}]}}
    world = tmp_path / "world.yaml"
    world.write_text(yaml.safe_dump_all([node, pod]))
    bound = []
    for gates in ([], ["--feature-gates", "TaintTolerationComparisonOperators=true"]):
        words = ["run", str(world), "--bus", "memory", "--run-dir", str(tmp_path / str(len(gates)))]
        assert main([*words, *gates, "--output", "json"]) == 0
        bound.append(json.loads(capsys.readouterr().out)["bound"])
    assert bound == [0, 1]


def test_a_world_is_scheduled_as_a_release_does(tmp_path, capsys):
    words = ["run", "examples/manifests", "--bus", "memory", "--run-dir", str(tmp_path / "run")]
    words += ["--compatibility-version", "1.37", "--feature-gates", "StorageCapacityScoring=false"]
    assert main([*words, "--output", "json"]) == 0
    meta = json.loads((tmp_path / "run" / "meta.json").read_text())
    assert meta["compatibility"] == "1.37"
