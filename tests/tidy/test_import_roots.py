"""Guards of the literal import roots (docs/adr/0001) and of the product's name in logs, metrics."""

import ast
import importlib
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.tidy.source import ROOT, at, python_files, report, tree_of

IMPORT_ROOTS = ("services", "shared", "muster")
LOGGER_MAKERS = {"getLogger", "get_logger"}
METRIC_TYPES = {"Counter", "Gauge", "Histogram", "Summary", "Info", "Enum"}
METRIC_PREFIXES = ("muster_", "scheduler_")
METRIC_SUFFIXES = ("MetricFamily",)


@pytest.fixture(scope="module")
def pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_distribution_can_never_be_published(pyproject):
    assert "Private :: Do Not Upload" in pyproject["project"]["classifiers"]


def test_the_distribution_has_exactly_these_import_roots(pyproject):
    found = pyproject["tool"]["setuptools"]["packages"]["find"]["include"]
    assert sorted(found) == sorted(f"{root}*" for root in IMPORT_ROOTS)


@pytest.mark.parametrize("root", IMPORT_ROOTS)
def test_the_root_is_imported_from_this_working_tree(root):
    module = importlib.import_module(root)
    assert module.__file__ is not None
    assert Path(module.__file__) == ROOT / root / "__init__.py"


def test_no_requirement_brings_a_root_of_the_same_name():
    installed = packages_distributions()
    strangers = {
        root: [name for name in installed.get(root, []) if name != "muster"]
        for root in IMPORT_ROOTS
    }
    report([f"{root} also comes from {names}" for root, names in strangers.items() if names])


def called_name(call: ast.Call) -> str:
    """Return the last name of the called function: ``getLogger`` of ``logging.getLogger(...)``."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def constant_text(node: ast.expr | None) -> str:
    """The text of a string literal, else nothing."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""


def naming_offence(call: ast.Call) -> str | None:
    """A logger not named ``muster`` or ``muster.*``, or a metric not named ``muster_*``, or as in
    kube-scheduler.
    """
    name = called_name(call)
    first = call.args[0] if call.args else None
    literal = constant_text(first)
    if name in LOGGER_MAKERS:
        named = isinstance(literal, str) and literal.split(".")[0] == "muster"
        return (
            None if named or is_prefixed(first, "muster.") else "logger without the product's name"
        )
    if name in METRIC_TYPES or name.endswith(METRIC_SUFFIXES):
        described = len(call.args) > 1 and literal != ""
        if described and not literal.startswith(METRIC_PREFIXES):
            return f"metric {literal} without the product's name"
    return None


def is_prefixed(node: ast.expr | None, prefix: str) -> bool:
    """Whether this is an f-string that begins with the prefix."""
    if not isinstance(node, ast.JoinedStr) or not node.values:
        return False
    return constant_text(node.values[0]).startswith(prefix)


def offences(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and offence."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found = [(call.lineno, naming_offence(call)) for call in calls]
    return [(line, what) for line, what in found if what is not None]


def test_loggers_and_metrics_carry_the_products_name():
    report(
        [
            f"{at(path, line)} {what}"
            for path in python_files(*IMPORT_ROOTS)
            for line, what in offences(tree_of(path))
        ]
    )


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("logging.getLogger(__name__)", 1),
        ("structlog.get_logger()", 1),
        ("structlog.get_logger('shared.machine')", 1),
        ("structlog.get_logger('muster.machine')", 0),
        ("logging.getLogger(f'muster.{service}')", 0),
        ("Counter('pods_total', 'pods')", 1),
        ("Gauge('muster_pods', 'pods')", 0),
        ("Counter(words)", 0),
    ],
)
def test_a_wrong_name_is_seen(code, count):
    assert len(offences(ast.parse(code))) == count
