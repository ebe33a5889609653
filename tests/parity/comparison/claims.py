"""Muster's answers about resource claims, in the form of tests/parity/oracle/claims, and the
comparison.
"""

from pathlib import Path
from typing import Any

from muster.explain.scoring import score_case
from shared.kubernetes.objects.errors import WorldError
from shared.model.profile import DYNAMIC_RESOURCES, WEIGHTS
from shared.model.release import ReleaseOptions
from shared.scheduling.claims.cel.values import quantity
from tests.support.server_process import servers_dir

Answer = dict[str, Any]
SUCCESS: Answer = {"code": "Success", "reasons": []}
SCORES_NONE = "is smaller than number of claims"


def program(version: str) -> Path:
    """Return the path of a release's oracle."""
    return servers_dir() / f"claims-{version}" / "claims"


def our_answer(case: Answer, version: str) -> Answer:
    """Return the answer of `muster score`; a refusal in the oracle's form."""
    try:
        found = score_case(case, release=ReleaseOptions(compatibility=version))
    except WorldError as error:
        return {"error": str(error)}
    return {"pods": [_pod(dict(one)) for one in found["pods"]]}


def _pod(found: Answer) -> Answer:
    return {
        "preEnqueueStatus": _status(found.get("preEnqueueStatus", SUCCESS)),
        "preFilterStatus": _status(found["preFilterStatus"]),
        "nodes": {name: _node(one) for name, one in found["nodes"].items()},
    }


def _node(one: Answer) -> Answer:
    score = one["scores"].get(DYNAMIC_RESOURCES, 0) // WEIGHTS[DYNAMIC_RESOURCES]
    rest = {key: one[key] for key in ("feasible", "code", "reasons")}
    return {**rest, "score": score, "allocations": one.get("allocations", {})}


def _status(given: Answer) -> Answer:
    return {"code": given["code"], "reasons": given["reasons"]}


def differences(ours: Answer, theirs: Answer) -> list[str]:
    """Return what differs; a case that either refuses differs unless both do."""
    if "pods" not in ours or "pods" not in theirs:
        refused = [f"ours: {ours.get('error')}", f"theirs: {theirs.get('error')}"]
        return [] if ours.keys() == theirs.keys() == {"error"} else [f"refused: {refused}"]
    found = []
    for number, (one, other) in enumerate(zip(ours["pods"], theirs["pods"], strict=True)):
        if other["preFilterStatus"]["code"] == "Skip":
            continue  # a pod without claims
        found += [
            f"pod {number}: {key}: {one[key]} != {other[key]}"
            for key in ("preEnqueueStatus", "preFilterStatus")
            if one[key] != other[key]
        ]
        if other["preFilterStatus"] != SUCCESS:
            continue
        if one["nodes"].keys() != other["nodes"].keys():
            found.append(f"pod {number}: nodes: {[*one['nodes']]} != {[*other['nodes']]}")
            continue
        keys = _compared(other)
        for node, mine in one["nodes"].items():
            yours = other["nodes"][node]
            for key in keys:
                left, right = _sorted(mine.get(key) or 0), _sorted(yours.get(key) or 0)
                if left != right:
                    found.append(f"pod {number}: {node}: {key}: {left} != {right}")
    return found


def _compared(theirs: Answer) -> tuple[str, ...]:
    """Return the parts of nodes' answers that are compared. 1.35 fails to score pods that have some
    of their devices already.
    """
    if any(SCORES_NONE in text for one in theirs["nodes"].values() for text in one["reasons"]):
        return ("feasible", "allocations")
    return ("feasible", "code", "reasons", "score", "allocations")


def _sorted(value: Any) -> Any:
    """Return an allocation with the values of node selectors in order, without empty parts and
    without what shares are called.
    """
    if isinstance(value, dict):
        found = {name: _sorted(one) for name, one in value.items()}
        if "shareID" in found:
            found["shareID"] = "share"
        if amounts := value.get("consumedCapacity"):
            found["consumedCapacity"] = {name: quantity(one).nano for name, one in amounts.items()}
        if isinstance(found.get("values"), list):
            found["values"].sort()
        return {name: one for name, one in found.items() if one not in ([], {}, None)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value
