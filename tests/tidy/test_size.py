"""Sizes: functions, files and lines stay small enough to read; every module has a docstring."""

import ast

from tests.tidy.source import at, python_files, report, text_of, tree_of

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600  # a smell, not a knife: never split what is one idea
LINE_CHARACTERS_MAX = 100


def long_functions(tree: ast.Module) -> list[tuple[int, str, int]]:
    """Functions over the limit: line, name, lines from ``def`` to the end."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                found.append((node.lineno, node.name, lines))
    return found


def test_functions_are_short():
    report(
        [
            f"{at(path, line)} {name} has {lines} lines, limit {FUNCTION_LINES_MAX}"
            for path in python_files()
            for line, name, lines in long_functions(tree_of(path))
        ]
    )


def test_files_are_short():
    counts = [(path, len((text_of(path) or "").splitlines())) for path in python_files()]
    report(
        [
            f"{at(path)} has {lines} lines, limit {FILE_LINES_MAX}"
            for path, lines in counts
            if lines > FILE_LINES_MAX
        ]
    )


def test_lines_are_short():
    report(
        [
            f"{at(path, number)} has {len(line)} characters, limit {LINE_CHARACTERS_MAX}"
            for path in python_files()
            for number, line in enumerate((text_of(path) or "").splitlines(), start=1)
            if len(line) > LINE_CHARACTERS_MAX
        ]
    )


def test_every_module_says_what_it_is_for():
    report(
        [
            f"{at(path)} has no module docstring"
            for path in python_files()
            if not ast.get_docstring(tree_of(path))
        ]
    )


def test_the_limit_is_seen_when_crossed():
    body = "\n".join("    x = 1" for _ in range(FUNCTION_LINES_MAX))
    assert long_functions(ast.parse(f"def f():\n{body}")) == [(1, "f", FUNCTION_LINES_MAX + 1)]
    shorter = "\n".join("    x = 1" for _ in range(FUNCTION_LINES_MAX - 1))
    assert long_functions(ast.parse(f"async def f():\n{shorter}")) == []
