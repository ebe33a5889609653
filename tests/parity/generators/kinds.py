"""The kinds of cases. Each kind has a module that draws it and a suite; `make parity` takes them
all.
"""

from collections.abc import Callable, Sequence
from functools import partial

from tests.parity.comparison import compare
from tests.parity.generators import (
    cases,
    combined,
    extenders,
    failures,
    images,
    in_tree_volumes,
    newer_fields,
    post_filter,
    preemption,
    rare_fields,
    resized_pods,
    sampling,
    ties,
    volumes,
)
from tests.parity.generators.case_builder import Object
from tests.parity.generators.configs import configured, preempting_configured

PLAIN, RARE, FAILURES = "plain", "rare", "failures"


IN_CI = {
    PLAIN: 500,
    "configs": 300,
    "resized": 90,
    RARE: 120,
    "newer": 150,
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
"""The number of cases of each kind that the tests compare: those of the first seeds."""


def kinds(url: str) -> dict[str, Callable[[int], Object]]:
    """Return by kind a function that draws a case from a seed; extenders are at `url`."""
    return {
        PLAIN: cases.case,
        "configs": configured,
        "resized": resized_pods.case,
        RARE: rare_fields.case,
        "newer": newer_fields.case,
        "images": images.case,
        "volumes": volumes.case,
        "in-tree": in_tree_volumes.case,
        "sampling": sampling.case,
        "extenders": partial(extenders.case, url=url),
        "preempt": preemption.case,
        "ties": ties.case,
        "ending": post_filter.case,
        "preempt-configs": preempting_configured,
        "preempt-volumes": partial(volumes.case, preempt=True),
        "preempt-extenders": partial(extenders.preempting_case, url=url),
        "together": combined.case,
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
    """Return the differences; for preemptors those of the victims as well."""
    if kind == FAILURES and not ("pods" in ours and "pods" in theirs):
        return failures.differences(ours, theirs)
    both_answer = "pods" in ours and "pods" in theirs
    if asked.get("preempt") and both_answer:
        return preemption.differences(asked, ours, theirs)
    return compare.differences(ours, theirs)
