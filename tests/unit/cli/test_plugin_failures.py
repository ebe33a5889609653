"""A plugin that fails: every output that a user reads names it, and the exit code is 1."""

import io
import json
from pathlib import Path

import pytest

from muster.app.live import Standing, line_of, summary_of
from muster.app.runner import Progress
from muster.cli.display import RunDisplay
from muster.cli.main import main
from shared.adapters.metrics import registry_of
from shared.scheduling.api.custom.failures import failures
from shared.scheduling.api.custom.plugin import PLUGINS
from tests.parity.suites.builders import node, pod

WORLD = Path(__file__).resolve().parents[3] / "examples" / "plugins" / "world.yaml"
PLUGIN = """
from muster.plugin import Plugin

class Broken(Plugin):
    def score(self, pod, nodes):
        return nodes.label("rack")
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {multiPoint: {enabled: [{name: Broken}]}}
"""
LINE = (
    "plugin Broken failed in score (mine.py line 6) once: AttributeError: 'Nodes' object has no "
    "attribute 'label'"
)


@pytest.fixture
def words(tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "config.yaml").write_text(CONFIG)
    yield ["--plugin", str(tmp_path / "mine.py"), "--config", str(tmp_path / "config.yaml")]
    PLUGINS.clear()


def test_run_ends_with_exit_code_1_and_names_the_plugin_and_its_line(words, tmp_path, capsys):
    run = str(tmp_path / "run")
    assert main(["run", str(WORLD), *words, "-o", "json", "--run-dir", run]) == 1
    out, err = capsys.readouterr()
    assert LINE in err
    found = json.loads(out)
    assert found["bound"] == 5, "a score that fails counts 0"
    assert found["plugin_failures"] == [
        {
            "plugin": "Broken",
            "method": "score",
            "file": "mine.py",
            "line": 6,
            "error": "AttributeError: 'Nodes' object has no attribute 'label'",
            "count": 1,
        }
    ]
    assert main(["why", "pod", "default/ledger-2", run, *words[:2]]) == 0
    assert f"warning    {LINE}" in capsys.readouterr().out
    assert main(["why", "pod", "default/ledger-2", run, *words[:2], "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["plugin_failures"] == found["plugin_failures"]


def test_score_ends_with_exit_code_1_and_names_the_plugin_and_its_line(words, tmp_path, capsys):
    case = tmp_path / "case.json"
    case.write_text(json.dumps({"objects": [node()], "pods": [pod()]}))
    assert main(["score", str(case), *words, "-o", "json"]) == 1
    out, err = capsys.readouterr()
    assert LINE.replace("once", "2 times") in err
    assert json.loads(out)["pluginFailures"][0]["line"] == 6


def test_progress_and_metrics_count_the_failures(words, tmp_path, capsys):
    main(["run", str(WORLD), *words, "-o", "json", "--run-dir", str(tmp_path / "run")])
    capsys.readouterr()
    standing = Standing(plugin_failures=failures())
    assert line_of(standing).endswith(LINE)
    assert summary_of(standing, tmp_path, 0).plugin_failures[0].method == "score"
    out = io.StringIO()
    RunDisplay(out, "world").show(Progress(total=5, seconds=4.0))
    assert out.getvalue().endswith("plugin failures: 1\n")
    labels = {"plugin": "Broken", "method": "score"}
    assert registry_of(list).get_sample_value("muster_plugin_errors_total", labels) == 1
