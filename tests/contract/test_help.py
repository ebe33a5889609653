"""The help of every command: it has examples that the real parser takes, and cuts nothing off."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from muster.cli.help import EXAMPLES, examples_of
from muster.cli.main import app, main
from muster.cli.subject import subject_of

ROOT = Path(__file__).resolve().parents[2]


def commands_in(group: click.Group, path: str = "muster") -> Iterator[str]:
    """The names of a group and of all commands in it."""
    yield path
    for name, command in group.commands.items():
        inner = f"{path} {name}"
        yield from commands_in(command, inner) if isinstance(command, click.Group) else [inner]


COMMANDS = list(commands_in(app))


def words_in(lines: list[str]) -> list[list[str]]:
    """The words after `muster` of each line; `a | muster b` has those after the pipe."""
    text = "\n".join(lines).replace("\\\n", " ")
    shell = [line.rpartition("| ")[2] for line in text.splitlines() if not line.startswith("#")]
    words = [shlex.split(line) for line in shell]
    assert {first for first, *_ in words} == {"muster"}
    return [others for _, *others in words]


@pytest.fixture
def parsed(monkeypatch) -> list[click.Context]:
    """The contexts of the commands that are called; none of them runs."""
    found: list[click.Context] = []
    monkeypatch.setattr(click.Command, "invoke", lambda _command, context: found.append(context))
    return found


def test_each_command_has_examples_and_no_other():
    assert EXAMPLES.keys() == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_help_ends_with_two_or_three_examples_that_can_be_run(command, parsed):
    examples = words_in(examples_of(command))
    assert 2 <= len(examples) <= 3
    for words in examples:
        assert main(words) == 0
        if "words" in parsed[-1].params:
            subject_of(parsed[-1].params["words"])
        files = [word for word in words if word.startswith("examples/")]
        assert [file for file in files if not (ROOT / file).exists()] == []
    shown = [" ".join(["muster", *words]) for words in examples]
    assert any(line.startswith(command) for line in shown)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_help_shows_its_examples_whole_and_readable_types(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*command.split()[1:], "--help"]) == 0
    said = capsys.readouterr().out
    assert said.endswith("".join(f"  {line}\n" for line in examples_of(command)))
    assert not re.search(r"INTEGER|RANGE|TEXT|PATH|<\w", said)


def test_the_list_of_commands_has_whole_sentences(capsys):
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:")[2].partition("Examples:")[0]
    assert "..." not in listed
    assert listed.count(".\n") == len(app.commands)
