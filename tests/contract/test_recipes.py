"""The recipes for contributors work as they are written, and need few files and places.

The pages name a file before each block: a whole new file in Python, or a diff of an existing one.
All recipes are followed in one copy of the repository, and the tests that they name run there. A
step that a reader has followed in the repository itself is left as it is.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tidy.source import ROOT, repository_files

PAGES = ("add-a-plugin", "add-an-event", "add-a-service")
BLOCK = re.compile(r"\n    ```(python|diff)\n(.*?)\n    ```", re.DOTALL)
STEP = re.compile(r"^(?:\d+\.|    And) ", re.MULTILINE)
PLACE = re.compile(r"`([\w/]+\.py)`")
OWN = ("services/audit/", "tests/")
GENERATED = (
    *("muster.generate.schemas", "muster.generate.diagrams", "muster.generate.reference"),
    *("tests.contract.add_golden", "tests.contract.add_snapshots"),
)
NOTICE = (
    *("tests/contract/test_handlers.py", "tests/contract/test_schemas.py"),
    "tests/unit/scheduling/test_plugin_reads.py",
)


class Block(NamedTuple):
    """The text that a step of a page puts into a file."""

    path: str
    is_new: bool
    lines: list[str]


def blocks(page: str) -> list[Block]:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    found, end = [], 0
    for block in BLOCK.finditer(text):
        step = STEP.split(text[end : block.start()])[-1]
        path = PLACE.search(step)
        assert path is not None, f"{page}: no file is named before\n{block[2]}"
        lines = [line[4:] for line in block[2].split("\n")]
        found.append(Block(path[1], block[1] == "python", lines))
        end = block.end()
    return found


def follow(block: Block, folder: Path) -> None:
    path = folder / block.path
    if block.is_new:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(block.lines) + "\n", encoding="utf-8")
        return
    text = path.read_text(encoding="utf-8")
    for hunk in "\n".join(block.lines).split("\n@@\n"):
        lines = hunk.split("\n")
        before = "\n".join(line[1:] for line in lines if line[:1] != "+") + "\n"
        after = "\n".join(line[1:] for line in lines if line[:1] != "-") + "\n"
        if after in text:
            continue
        assert text.count(before) == 1, f"found {text.count(before)} times in {path}:\n{before}"
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")


def run(folder: Path, *command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3_000:]}\n{done.stderr[-3_000:]}"


@pytest.mark.slow
def test_the_recipes_work(tmp_path):
    for path in repository_files():
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    steps = [block for page in PAGES for block in blocks(page)]
    for block in steps:
        follow(block, tmp_path)
    for module in GENERATED:
        run(tmp_path, module)
    changed = sorted({block.path for block in steps})
    run(tmp_path, "ruff", "check", "--no-cache", "--fix", "--select", "I", *changed)
    run(tmp_path, "ruff", "check", "--no-cache", *changed)
    run(tmp_path, "ruff", "format", "--no-cache", "--check", *changed)
    tests = [path for path in changed if Path(path).name.startswith("test_")]
    assert len(tests) == len(PAGES)
    run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", *tests, *NOTICE)


@pytest.mark.parametrize(
    ("page", "files", "places"), [("add-a-plugin", 4, 2), ("add-an-event", 6, 5)]
)
def test_a_recipe_opens_few_files_and_changes_few_places(page, files, places):
    changes = [block for block in blocks(page) if not block.is_new]
    assert len(changes) == places
    assert len({"the page", *(block.path for block in changes)}) <= files


def test_a_service_needs_three_places_outside_its_folders():
    outside = [one for one in blocks("add-a-service") if not one.path.startswith(OWN)]
    assert len(outside) == 3
