"""The plugin that docs/plugins.md shows is the one in examples/, which other tests run."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_shows_the_example():
    text = (ROOT / "docs" / "plugins.md").read_text()
    shown = text.split("```python\n", 1)[1].split("```", 1)[0]
    code = (ROOT / "examples" / "plugins" / "off_spot.py").read_text()
    assert code.split('"""\n\n', 1)[1] == shown
    assert len(shown.splitlines()) <= 20
