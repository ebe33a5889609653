"""Cores use only operations with one result on every machine and under every hash seed.

import-linter checks the imports. This file checks the calls, by the rules of
muster/user_plugins/determinism.py, which users' plugins must follow as well. Replay finds the rest.
"""

import ast

import pytest

from muster.user_plugins.determinism import offences
from tests.tidy.source import at, is_core, python_files, report, tree_of


def test_cores_use_only_deterministic_operations():
    report(
        [
            f"{at(path, line)} {what} in a core"
            for path in python_files("services", "shared")
            if is_core(path)
            for line, what in offences(tree_of(path))
        ]
    )


@pytest.mark.parametrize(
    "code",
    [
        *(
            "np.sum(x)",
            "np.dot(a, b)",
            "np.std(x)",
            "np.einsum('i->', x)",
            "np.log(x)",
            "np.exp(x)",
        ),
        *("np.argpartition(x, 3)", "x.argpartition(3)", "np.argsort(x)", "x.argsort()", "a @ b"),
        *("x.argsort(kind='quicksort')", "mask.sum()", "x.mean()", "np.random.rand()", "hash(x)"),
        *("for x in {1, 2}: pass", "[x for x in set(y)]", "async def f(): pass", "open('x')"),
        *("f = np.exp", "np.exp(x)", "from numpy import exp"),
    ],
)
def test_a_forbidden_operation_is_seen(code):
    assert offences(ast.parse(code)) != []


@pytest.mark.parametrize(
    "code",
    [
        *("np.argsort(x, kind='stable')", "x.argsort(kind='stable')", "np.floor(x / y)"),
        *("np.sqrt(x)", "np.minimum(a, b)", "x.sum(dtype=np.int64)", "np.count_nonzero(m)"),
        *("for x in sorted({1, 2}): pass", "text.partition('=')", "np.cumsum(x)", "x in {1, 2}"),
    ],
)
def test_deterministic_operations_pass(code):
    assert offences(ast.parse(code)) == []
