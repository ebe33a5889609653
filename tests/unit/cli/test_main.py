"""How the command line ends when it is told to stop."""

import pytest

from muster import __main__, cli
from muster.cli import main
from muster.commands import story
from muster.faults import EXIT_INTERRUPTED


def test_ctrl_c_ends_a_command_with_one_line(monkeypatch, capsys):
    def tell(*_words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(story, "tell", tell)
    assert main(["story", "pod/p", "runs/x"]) == EXIT_INTERRUPTED
    assert capsys.readouterr().err == "muster: interrupted\n"


def test_ctrl_c_before_there_is_a_command_ends_with_one_line_too(monkeypatch, capsys):
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupted)
    assert __main__.main() == EXIT_INTERRUPTED
    assert capsys.readouterr().err == "muster: interrupted\n"


@pytest.mark.parametrize("words", [[], ["--help"], ["run", "-h"]])
def test_help_is_no_failure(words, capsys):
    assert main(words) == 0
    assert "Usage: muster" in capsys.readouterr().out
