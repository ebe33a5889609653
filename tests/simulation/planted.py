"""Runs seeds with one bug planted into the product's source: `python -m tests.simulation.planted`.

The bug is a replacement of text in one module, applied as the module is imported, so nothing on
disk changes. Text that is not found exactly once is an error: a patch must follow the code.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parents[2]
SEEDS_MAX = 50
IS_LONG = "MUSTER_SEEDS" in os.environ
"""Whether everything is played and planted, as by `make seeds`, or a sample."""
FOUND, MISSED, NOT_APPLIED, FOUND_OTHERWISE = 0, 3, 4, 5


Edit = tuple[str, str]
Problem = tuple[str, str]
HALT = "halt"
SLIPS = (
    "NameError",
    "UnboundLocalError",
    "TypeError",
    "AttributeError",
    "ValueError",
    "KeyError",
    "IndexError",
)
"""The end of the error for a patch that does not follow the code, which must not count as found."""


class Bug:
    """`edits` are (old, new) texts of one module; `by` are the rules by which it may be found, and
    pieces of what services say that halt because of it; `first` are the seeds to begin with.
    """

    def __init__(
        self,
        name: str,
        module: str,
        *edits: Edit,
        by: tuple[str, ...] = (),
        first: tuple[int, ...] = (),
    ) -> None:
        self.name, self.module, self.edits, self.by, self.first = name, module, edits, by, first

    def found_by(self, problems: Sequence[Problem]) -> Problem | None:
        """Return the first problem by which this bug may be found."""
        for rule, text in problems:
            if rule != HALT and rule in self.by:
                return rule, text
            if rule == HALT and not _is_slip(text) and any(said in text for said in self.by):
                return rule, text
        return None


def _is_slip(text: str) -> bool:
    return any(f" {kind}" in text for kind in SLIPS)


def edit(old: str, new: str) -> Edit:
    """Return an edit of whole lines: the first and last line break of both texts are dropped."""
    return old.strip("\n"), new.strip("\n")


def path_of(module: str) -> Path:
    """Return the source file of a module of this repository."""
    stem = ROOT.joinpath(*module.split("."))
    return stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")


def applies(bug: Bug) -> bool:
    """Return whether the bug can be planted into today's source."""
    try:
        compile(patched(bug), bug.module, "exec")
    except (ValueError, SyntaxError, OSError):
        return False
    return True


def patched(bug: Bug) -> str:
    """Return the module's source with the bug in it. Raises ValueError if the bug does
    not apply.
    """
    source = path_of(bug.module).read_text(encoding="utf-8")
    for old, new in bug.edits:
        if source.count(old) != 1:
            raise ValueError(f"{bug.name}: found {source.count(old)} times in {bug.module}: {old}")
        source = source.replace(old, new)
    return source


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles given source instead of the file's."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the one module that has the bug."""

    def __init__(self, bug: Bug) -> None:
        self._bug, self._source = bug, patched(bug)

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._bug.module:
            return None
        path = path_of(fullname)
        return importlib.util.spec_from_file_location(
            fullname,
            path,
            loader=_Loader(fullname, str(path), self._source),
            submodule_search_locations=[str(path.parent)] if path.name == "__init__.py" else None,
        )


def plant(bug: Bug) -> None:
    """Plant the bug into later imports of the module."""
    assert bug.module not in sys.modules, f"{bug.module} is imported already"
    sys.meta_path.insert(0, _Finder(bug))


def hunt(bug: Bug, seeds: Sequence[int]) -> int:
    """Return whether a seed finds the bug; the first seed with any problem must."""
    from muster.simulation.run import simulate
    from muster.simulation.scenario import make_scenario

    for seed in seeds:
        result = simulate(make_scenario(seed), redecide=True)
        if not result.is_good:
            found = bug.found_by(result.problems)
            rule, text = found or result.problems[0]
            print(f"{bug.name}: seed {seed}: {rule}: {text}"[:400])
            return FOUND_OTHERWISE if found is None else FOUND
    return MISSED


def main(name: str, count: int = SEEDS_MAX) -> int:
    """Hunt one bug by name."""
    from tests.simulation.bugs import BUGS

    bug = next(bug for bug in BUGS if bug.name == name)
    try:
        plant(bug)
    except ValueError as error:
        print(error)
        return NOT_APPLIED
    rest = [seed for seed in range(SEEDS_MAX) if seed not in bug.first]
    seeds = [*bug.first, *rest][:count]
    return hunt(bug, seeds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *(int(word) for word in sys.argv[2:])))
