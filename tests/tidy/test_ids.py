"""What is called a pod, a node, a signature and so on has the type of such numbers, not `int`."""

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.source import ROOT, at, python_files, report, tree_of

NAMES = {"pod", "node", "sig", "gang", "attempt", "ask", "effect"}
PLAIN = {
    "shared/model/podset.py",  # a set that may hold numbers of any kind
    "shared/scheduling/api/custom/post_filter.py",  # what users' plugins get
}


def _plain_ids(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of fields and parameters that are called an id and typed `int`."""
    for one in ast.walk(tree):
        if isinstance(one, ast.arg):
            name, kind = one.arg, one.annotation
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            name, kind = one.target.id, one.annotation
        else:
            continue
        words = {part.id for part in ast.walk(kind or one) if isinstance(part, ast.Name)}
        if name in NAMES and kind is not None and "int" in words:
            yield one.lineno, name


def test_numbers_have_the_type_of_their_kind():
    report(
        [
            f"{at(path, line)} {name} is an int"
            for path in python_files("services", "shared")
            if str(path.relative_to(ROOT)) not in PLAIN
            for line, name in _plain_ids(tree_of(path))
        ]
    )


@pytest.mark.parametrize("code", ["def f(pod: int): pass", "class A:\n    gang: int | None = None"])
def test_a_plain_number_is_seen(code):
    assert list(_plain_ids(ast.parse(code))) != []


@pytest.mark.parametrize("code", ["def f(pod: PodId, row: int): pass", "nodes: int = 0"])
def test_other_numbers_pass(code):
    assert list(_plain_ids(ast.parse(code))) == []
