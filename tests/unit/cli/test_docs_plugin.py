"""docs/how-to/write-a-plugin.md shows and names the plugins in examples/, which other tests run."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "examples" / "plugins").glob("*.py"))
LINES_MAX = 20


def page() -> str:
    return (ROOT / "docs" / "how-to" / "write-a-plugin.md").read_text(encoding="utf-8")


def code_of(example: Path) -> str:
    return example.read_text(encoding="utf-8").split('"""\n\n', 1)[1]


@pytest.mark.parametrize(("place", "file"), [(1, "off_spot.py"), (2, "pairs.py")])
def test_the_page_shows_the_example(place, file):
    shown = page().split("```python\n")[place].split("```", 1)[0]
    assert shown == code_of(ROOT / "examples" / "plugins" / file)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_page_names_every_example(example):
    assert f"`examples/plugins/{example.name}`" in page()
    assert len(code_of(example).splitlines()) <= LINES_MAX
