"""The repository's files for the style tests, and their syntax trees; no rules."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE_ROOTS = ("services", "shared", "muster", "loadtest", "tests", "deploy", "schemas", "docs")
# Written by machines, or not part of the repository (see .gitignore).
SKIPPED_FOLDERS = {"__pycache__", "runs", "site", "node_modules"}
TEXT_BYTES_MAX = 2_000_000


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            hidden = path.name.startswith(".") and path.name != ".ci"
            if not hidden and path.name not in SKIPPED_FOLDERS:
                yield from _walk(path)
        elif path.is_file() and path.name != ".git":  # which a worktree has in place of the folder
            yield path


@cache
def repository_files() -> tuple[Path, ...]:
    """Every file a clone has, apart from what .gitignore names."""
    return tuple(_walk(ROOT))


def python_files(*roots: str) -> list[Path]:
    """Python files below the given top folders (all code roots when none is given)."""
    chosen = roots or CODE_ROOTS
    return [
        path
        for path in repository_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in chosen
    ]


def is_core(path: Path) -> bool:
    """Whether the determinism rules hold in this file: service cores and the scheduling package."""
    parts = path.relative_to(ROOT).parts
    if parts[:2] == ("shared", "scheduling"):
        return True
    return parts[0] == "services" and len(parts) > 2 and parts[2].startswith("core")


@cache
def text_of(path: Path) -> str | None:
    """The file's text, or None for binary and for large data files."""
    if path.stat().st_size > TEXT_BYTES_MAX:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@cache
def tree_of(path: Path) -> ast.Module:
    """The parsed module."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def at(path: Path, line: int | None = None) -> str:
    """A clickable place."""
    place = str(path.relative_to(ROOT))
    return place if line is None else f"{place}:{line}"


def report(findings: list[str]) -> None:
    """Fail with every finding at once, one a line."""
    assert not findings, "\n" + "\n".join(findings)
