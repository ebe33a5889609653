"""Only `require_tool` skips a test, and with CI=true a missing tool is an error."""

import ast
from pathlib import Path

import pytest

from tests.support.required_tools import require_tool
from tests.tidy.source import ROOT, at, python_files, report, tree_of

SKIPPERS = {"skip", "skipif", "xfail", "importorskip", "SkipTest", "skipTest"}
THE_ONE_PLACE = Path("tests") / "support" / "required_tools.py"


def skips(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and name of everything that could keep a test from running."""
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return [(node.lineno, node.attr) for node in attributes if node.attr in SKIPPERS]


def test_only_a_missing_tool_skips_a_test():
    report(
        [
            f"{at(path, line)} {name}: use tests.support.required_tools.require_tool"
            for path in python_files("tests")
            if path.relative_to(ROOT) != THE_ONE_PLACE
            for line, name in skips(tree_of(path))
        ]
    )


def test_a_skip_is_seen():
    assert skips(ast.parse("pytest.mark." + "skip" + "('later')")) == [(1, "skip")]


def test_a_missing_tool_skips_with_the_command_that_provides_it():
    with pytest.raises(BaseException, match="SKIPPED: kafka missing; run 'make servers'") as raised:
        require_tool("kafka", "make servers", found=False, environ={})
    assert type(raised.value).__name__ == "Skipped"


def test_a_missing_tool_is_an_error_in_ci():
    with pytest.raises(BaseException, match="kafka missing and CI=true") as raised:
        require_tool("kafka", "make servers", found=False, environ={"CI": "true"})
    assert type(raised.value).__name__ == "Failed"


def test_a_tool_that_is_there_passes():
    require_tool("kafka", "make servers", found=True, environ={"CI": "true"})


def test_path_is_where_tools_are_looked_for():
    require_tool("make", "install make", environ={"CI": "true"})
