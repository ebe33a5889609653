"""How the command line ends when it is stopped, and refuses bad input."""

import pytest

from muster import __main__, __version__
from muster.cli import main as cli
from muster.cli.commands import story
from muster.cli.errors import EXIT_INTERRUPTED, EXIT_USAGE
from muster.cli.main import main
from services.queueing.core.core import QueueingCore
from shared.model.ids import SHARDS_MAX


def test_ctrl_c_ends_a_command_with_one_line(monkeypatch, capsys):
    def tell(*_words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(story, "print_story", tell)
    assert main(["story", "pod/p", "runs/x"]) == EXIT_INTERRUPTED
    assert capsys.readouterr().err == "muster: interrupted\n"


def test_ctrl_c_before_there_is_a_command_ends_with_one_line_too(monkeypatch, capsys):
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupted)
    assert __main__.main() == EXIT_INTERRUPTED
    assert capsys.readouterr().err == "muster: interrupted\n"


@pytest.mark.parametrize(
    "words",
    [
        ["run", "flood:count=1"],
        ["serve", "all", "--bus", "sqlite:nowhere"],
        ["simulate"],
        ["replay", "runs/x"],
    ],
    ids=lambda words: words[0],
)
def test_more_shards_than_a_mesh_can_have_are_refused_before_anything_starts(words, capsys):
    QueueingCore(SHARDS_MAX).new()
    assert main([*words, "--placements", str(SHARDS_MAX + 1)]) == EXIT_USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert "--placements" in said.err
    assert str(SHARDS_MAX) in said.err


@pytest.mark.parametrize("words", [[], ["--help"], ["run", "-h"]])
def test_help_is_no_failure(words, capsys):
    assert main(words) == 0
    assert "Usage: muster" in capsys.readouterr().out


@pytest.mark.parametrize(
    "option", [["--leader-elect"], ["--cut-journals"], ["--scheduler-name", "other"]]
)
def test_options_of_a_cluster_are_refused_without_one(option, tmp_path, capsys):
    words = ["run", "examples/manifests", "--run-dir", str(tmp_path / "run"), *option]
    assert main(words) == EXIT_USAGE
    assert f"{option[0]}: requires --kubeconfig" in capsys.readouterr().err


def test_a_run_on_virtual_time_serves_no_metrics(tmp_path, capsys):
    words = ["run", "examples/manifests", "--run-dir", str(tmp_path / "run")]
    assert main([*words, "--metrics-port", "9090"]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert "--metrics-port: a run on virtual time serves none: add --real-time" in said
    assert not (tmp_path / "run").exists()


def test_services_of_a_simulated_cluster_have_no_lease(tmp_path, capsys):
    words = ["serve", "all", "--bus", f"sqlite:{tmp_path / 'bus.db'}", "--cluster", "127.0.0.1:9"]
    assert main([*words, "--leader-elect"]) == EXIT_USAGE
    assert "--leader-elect: requires --kubeconfig" in capsys.readouterr().err


def test_the_completion_of_a_shell_is_printed(capfd):
    assert main(["--show-completion", "bash"]) == 0
    assert "_MUSTER_COMPLETE=bash_complete" in capfd.readouterr().out


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"muster {__version__}\n"
