"""Muster's answers about selectors, in the form of tests/parity/oracle/claims, and the comparison.

Errors need not have the same words, but for a missing key, which users meet.
"""

from typing import Any

from shared.kubernetes.objects.claims.devices import resource_slice
from shared.kubernetes.objects.fields import Fields
from shared.scheduling.claims.cel.compiler import Selector
from shared.scheduling.claims.cel.errors import EvaluationError, SelectorError
from shared.scheduling.claims.device_table import SliceDevices

Answer = dict[str, Any]
OUTSIDE = "not supported"
NO_KEY = "no such key"


def our_answer(case: Answer) -> Answer:
    """Return the answer."""
    devices = [_held(one) for one in case["cel"]["devices"]]
    return {"cel": [_asked(one, devices) for one in case["cel"]["expressions"]]}


def _held(given: Answer) -> SliceDevices:
    pool = {"name": "p", "resourceSliceCount": 1}
    spec = {"driver": given["driver"], "pool": pool, "allNodes": True, "devices": [given["device"]]}
    document = {"metadata": {"name": "s"}, "spec": spec}
    return SliceDevices(resource_slice(Fields.root("slice", document)))


def _asked(expression: str, devices: list[SliceDevices]) -> Answer:
    try:
        selector = Selector(expression)
    except SelectorError as error:
        return {"compileError": str(error)}
    return {"devices": [_verdict(one, selector) for one in devices]}


def _verdict(held: SliceDevices, selector: Selector) -> Answer:
    try:
        return {"matches": held.selected(0, selector)}
    except EvaluationError as error:
        return {"matches": False, "error": str(error)}


def differences(case: Answer, ours: Answer, theirs: Answer) -> list[str]:
    """Return what differs. Expressions that Muster says it does not support are passed over."""
    found = []
    answers = zip(case["cel"]["expressions"], ours["cel"], theirs["cel"], strict=True)
    for expression, mine, yours in answers:
        left, right = mine.get("compileError"), yours.get("compileError")
        if left and OUTSIDE in left:
            continue
        if left or right:
            if not (left and right):
                found.append(f"{expression}: compiles: {left} != {right}")
            continue
        for one, other in zip(mine["devices"], yours["devices"], strict=True):
            said, told = one.get("error", ""), other.get("error", "")
            same_words = said == told or NO_KEY not in said + told
            if one["matches"] != other["matches"] or bool(said) != bool(told) or not same_words:
                found.append(f"{expression}: {one} != {other}")
    return found
