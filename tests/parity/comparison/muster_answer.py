"""Muster's answer to a case, and its comparison with kube-scheduler's."""

import json
from collections.abc import Callable
from typing import Any

from muster.explain.scoring import score_case
from shared.model.release import TAINT_COMPARISON, V1_35, ReleaseOptions
from tests.parity.comparison.compare import differences, kind
from tests.parity.comparison.shrink import shrunk

Answer = dict[str, Any]
Ask = Callable[[Answer], Answer]

GATES = {TAINT_COMPARISON: True}
"""The gates that the oracle switches on."""


def our_answer(case: Answer, version: str = V1_35) -> Answer:
    """Return the answer of `muster score`; a refusal or a failed assertion in the oracle's form."""
    try:
        release = ReleaseOptions(compatibility=version, feature_gates=GATES)
        return {**score_case(case, release=release)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def differs(case: Answer, ask: Ask, about: str = "", version: str = V1_35) -> bool:
    """Whether both answer, and not the same (`about` one kind of difference, when it is given).

    A case that one of them refuses does not differ.
    """
    ours, theirs = our_answer(case, version), ask(case)
    if not ours.get("pods") or not theirs.get("pods"):
        return False
    return any(about in ("", kind(line)) for line in differences(ours, theirs))


def smallest(case: Answer, ask: Ask, tries_max: int, version: str = V1_35) -> Answer:
    """Return the smallest case found that differs in the same way; the case itself if one side
    refuses it.
    """
    if not differs(case, ask, version=version):
        return case
    about = kind(differences(our_answer(case, version), ask(case))[0])
    return shrunk(case, lambda one: differs(one, ask, about, version), tries_max)


def told(seed: int, case: Answer, ask: Ask, tries_max: int) -> str:
    """Return the differences of a case, with the smallest case found that shows them."""
    small = smallest(case, ask, tries_max)
    found = differences(our_answer(small), ask(small)) or differences(our_answer(case), ask(case))
    return f"seed {seed}:\n" + "\n".join(found[:20]) + f"\n{json.dumps(small)}"
