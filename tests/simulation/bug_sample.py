"""The sample of planted bugs that the tests plant; `make seeds` plants all."""

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.simulation.planted import IS_LONG, Bug, applies

EVERY = 3


def without_most_bugs(
    items: Iterable[pytest.Item],
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests to run, and those to leave out. Of the bugs of one test every third is
    planted, and each that does not apply to the code any more, so that its test fails.
    """
    numbers: Counter[str] = Counter()
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        bug = _bug_of(item)
        test = item.nodeid.partition("[")[0]
        is_kept = bug is None or IS_LONG or numbers[test] % EVERY == 0 or not applies(bug)
        numbers[test] += bug is not None
        (kept if is_kept else left_out).append(item)
    return kept, left_out


def _bug_of(item: pytest.Item) -> Bug | None:
    spec = getattr(item, "callspec", None)
    found = None if spec is None else spec.params.get("bug")
    return found if isinstance(found, Bug) else None
