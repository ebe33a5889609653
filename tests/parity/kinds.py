"""The kinds of cases there are. Each has a module that draws it and tests of its own; `make parity`
takes them all.
"""

from collections.abc import Callable, Sequence
from functools import partial

from tests.parity import (
    cases,
    compare,
    extending,
    failures,
    images,
    in_tree,
    postfilter,
    preempting,
    rare,
    resized,
    sampling,
    ties,
    together,
    volumes,
)
from tests.parity.configs import configured, preempting_configured
from tests.parity.draft import Object

PLAIN, RARE, FAILURES = "plain", "rare", "failures"


IN_CI = {
    PLAIN: 500,
    "configs": 300,
    "resized": 90,
    RARE: 120,
    "images": 240,
    "volumes": 400,
    "in-tree": 140,
    "sampling": 80,
    "extenders": 80,
    "preempt": 300,
    "ties": 120,
    "ending": 400,
    "preempt-configs": 300,
    "preempt-volumes": 200,
    "preempt-extenders": 300,
    "together": 400,
    FAILURES: 72,
}
"""How many of each are compared by the tests: those of the first seeds."""


def kinds(url: str) -> dict[str, Callable[[int], Object]]:
    """What draws a case of each kind from its seed; extenders are at `url`."""
    return {
        PLAIN: cases.case,
        "configs": configured,
        "resized": resized.case,
        RARE: rare.case,
        "images": images.case,
        "volumes": volumes.case,
        "in-tree": in_tree.case,
        "sampling": sampling.case,
        "extenders": partial(extending.case, url=url),
        "preempt": preempting.case,
        "ties": ties.case,
        "ending": postfilter.case,
        "preempt-configs": preempting_configured,
        "preempt-volumes": partial(volumes.case, preempt=True),
        "preempt-extenders": partial(extending.preempting_case, url=url),
        "together": together.case,
        FAILURES: partial(failures.case, url=url),
    }


def turns(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """The kinds in the order in which they take turns: these, or, if none is named, a plain case
    before each of the others.
    """
    if names:
        return list(names)
    return [one for kind in known if kind != PLAIN for one in (PLAIN, kind)]


def differences(kind: str, asked: Object, ours: Object, theirs: Object) -> list[str]:
    """What is not the same; of pods that make room, who goes as well."""
    if kind == FAILURES and not ("pods" in ours and "pods" in theirs):
        return failures.differences(ours, theirs)
    both_answer = "pods" in ours and "pods" in theirs
    if asked.get("preempt") and both_answer:
        return preempting.differences(asked, ours, theirs)
    return compare.differences(ours, theirs)
