"""The worlds in examples/ do what the comments at their tops say, with the commands there."""

import json
import re
import shlex
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

from muster.cli.main import main
from shared.scheduling.api.custom.plugin import PLUGINS

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
WORLDS = sorted(path for path in EXAMPLES.rglob("*.yaml") if "#   muster run " in path.read_text())
SLOW = "manifests"
COMES_S = 0.8
"""Less than the second after which the second pod of the pair arrives."""
SEEN = re.compile(r"#   (\S+(?:, \S+)*)  +(bound|evicted|waits)(?: to (\S+)|: (.+))?")


@pytest.fixture(autouse=True)
def _forgotten():
    yield
    PLUGINS.clear()


def command_of(text: str) -> list[str]:
    """Return the words of the command in a comment."""
    lines = [line.removeprefix("#   ") for line in text.splitlines()]
    begin = next(number for number, line in enumerate(lines) if line.startswith("muster run "))
    end = next(number for number in range(begin, len(lines)) if not lines[number].endswith("\\"))
    return shlex.split(
        " ".join(line.removesuffix("\\").strip("# ") for line in lines[begin : end + 1])
    )


def outcomes_of(text: str) -> dict[str, tuple[str, str, str]]:
    """Return what the comment says of each pod: (bound, evicted or waits; its node; why
    it waits).
    """
    found = (SEEN.fullmatch(line) for line in text.splitlines())
    return {
        name: (one[2], one[3] or "", one[4] or "")
        for one in found
        if one is not None
        for name in one[1].split(", ")
    }


def plugins_in(words: list[str]) -> list[str]:
    return ["--plugin", words[words.index("--plugin") + 1]] if "--plugin" in words else []


def case_of(path: Path):
    marks = [pytest.mark.slow] if path.parent.name == SLOW else []
    return pytest.param(path, marks=marks, id=f"{path.parent.name}/{path.name}")


@pytest.mark.parametrize("path", [case_of(path) for path in WORLDS])
def test_a_run_shows_what_the_examples_comment_says(path, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    text = path.read_text()
    _, *words = command_of(text)
    assert ROOT / words[1] in (path, path.parent), "its own"
    assert main([*words, "--run-dir", "run", "-o", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["complete"], result["confirmed"], result["plugin_failures"]) == (True, True, [])
    outcomes = outcomes_of(text)
    assert outcomes
    reasons = Counter(why for how, _, why in outcomes.values() if how == "waits" and why)
    assert reasons.items() <= result["waiting_by_reason"].items()
    for name, (how, node, _) in outcomes.items():
        if how == "evicted":
            assert main(["story", f"pod/{name}", "run"]) == 0
            assert f"default/{name} to be evicted" in capsys.readouterr().out
            continue
        assert main(["why", "pod", f"default/{name}", "run", "-o", "json", *plugins_in(words)]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["state"] == "bound") == (how == "bound"), (name, found)
        assert not node or found["node"] == node, (name, found)


def test_the_first_of_a_pair_is_bound_when_the_second_has_come(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    _, *words = command_of((EXAMPLES / "plugins" / "pairs-world.yaml").read_text())
    run = str(tmp_path / "run")
    assert main([*words, "--run-dir", run, "-o", "json"]) == 0
    bound = {}
    for name in ("left", "right", "scarf"):
        capsys.readouterr()
        assert main(["why", "pod", f"default/{name}", run, "-o", "json", *plugins_in(words)]) == 0
        decided = json.loads(capsys.readouterr().out)["decided"]["time"]
        bound[name] = datetime.fromisoformat(decided)
    assert (bound["left"] - bound["scarf"]).total_seconds() > COMES_S
    assert (bound["right"] - bound["scarf"]).total_seconds() > COMES_S


def test_every_example_with_a_configuration_has_a_world():
    shown = {word for path in WORLDS for word in command_of(path.read_text())}
    plugins = {f"examples/plugins/{path.name}" for path in (EXAMPLES / "plugins").glob("*.py")}
    configs = {str(path.relative_to(ROOT)) for path in EXAMPLES.rglob("*-config.yaml")}
    assert plugins | configs <= shown
