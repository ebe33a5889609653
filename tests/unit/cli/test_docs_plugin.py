"""The plugins that docs/plugins.md shows are those in examples/, which other tests run."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("place", "file"),
    [
        *((1, "off_spot.py"), (2, "teams.py"), (3, "licenses.py"), (4, "ledger.py")),
        *((5, "pairs.py"), (6, "tenants.py"), (7, "near.py"), (8, "audited.py")),
    ],
)
def test_the_page_shows_the_example(place, file):
    text = (ROOT / "docs" / "plugins.md").read_text()
    shown = text.split("```python\n")[place].split("```", 1)[0]
    code = (ROOT / "examples" / "plugins" / file).read_text()
    assert code.split('"""\n\n', 1)[1] == shown
    assert len(shown.splitlines()) <= 20
