"""Muster's answers about resource claims, in the form of tests/parity/oracle/claims, and the
comparison.
"""

from collections.abc import Iterator
from typing import Any

from shared.kubernetes.objects.claims.claims import device_class, pod_claims, resource_claim
from shared.kubernetes.objects.claims.devices import resource_slice
from shared.kubernetes.objects.claims.written import allocation_object
from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.scheduling.claims.allocator import AllocationError
from shared.scheduling.claims.places import NodeView
from shared.scheduling.claims.pod_claims import ClaimFacts, ClaimingPod, NotReady
from tests.support.server_process import servers_dir

Answer = dict[str, Any]
UNRESOLVABLE = "UnschedulableAndUnresolvable"
PROGRAM = servers_dir() / "claims-1.37" / "claims"


def our_answer(case: Answer) -> Answer:
    """Return the answer; a refusal in the oracle's form."""
    try:
        return {"pods": [_pod(case, one) for one in case["pods"]]}
    except WorldError as error:
        return {"error": str(error)}


def _read(case: Answer, kind: str) -> Iterator[Fields]:
    for one in case["objects"]:
        if one["kind"] == kind:
            yield Fields.root(f"{kind} {one['metadata']['name']}", one)


def _pod(case: Answer, given: Answer) -> Answer:
    facts = ClaimFacts(
        map(device_class, _read(case, "DeviceClass")),
        map(resource_slice, _read(case, "ResourceSlice")),
        [resource_claim(one, "default") for one in _read(case, "ResourceClaim")],
    )
    fields, meta = Fields.root("Pod", given), given["metadata"]
    uses = tuple(pod_claims(fields.child("spec"), fields.child("status")))
    pod = ClaimingPod("default", meta["name"], meta["uid"], uses)
    found: Answer = {"preEnqueueStatus": _status(), "preFilterStatus": _status(), "nodes": {}}
    try:
        claims = facts.resolve(pod)
    except NotReady as error:
        status = _status(UNRESOLVABLE, str(error))
        return found | {"preEnqueueStatus": status, "preFilterStatus": status}
    if not claims:
        return found | {"preFilterStatus": _status("Skip")}
    try:
        facts.check_classes(claims)
    except NotReady as error:
        return found | {"preFilterStatus": _status(UNRESOLVABLE, str(error))}
    scores = {}
    for node in _read(case, "Node"):
        name = node.child("metadata").required_text("name")
        view = NodeView(name, node.child("metadata").mapping("labels"))
        try:
            fit = facts.fit(claims, view)
        except AllocationError as error:
            found["nodes"][name] = {"feasible": False, **_status("Error", str(error)), "score": 0}
            continue
        if fit.reason:
            found["nodes"][name] = {"feasible": False, **_status(UNRESOLVABLE, fit.reason)}
            continue
        scores[name] = fit.score
        allocations = {claim.shown: allocation_object(has) for claim, has in fit.allocations}
        found["nodes"][name] = {"feasible": True, **_status(), "allocations": allocations}
    most = max(scores.values(), default=0)
    for name, score in scores.items():
        found["nodes"][name]["score"] = score * 100 // most if most else score
    return found


def _status(code: str = "Success", *reasons: str) -> Answer:
    return {"code": code, "reasons": list(reasons)}


def differences(ours: Answer, theirs: Answer) -> list[str]:
    """Return what differs; a case that either refuses differs unless both do."""
    if "pods" not in ours or "pods" not in theirs:
        refused = [f"ours: {ours.get('error')}", f"theirs: {theirs.get('error')}"]
        return [] if ours.keys() == theirs.keys() == {"error"} else [f"refused: {refused}"]
    found = []
    for number, (one, other) in enumerate(zip(ours["pods"], theirs["pods"], strict=True)):
        found += [
            f"pod {number}: {key}: {one[key]} != {other[key]}"
            for key in ("preEnqueueStatus", "preFilterStatus")
            if one[key] != other[key]
        ]
        if one["nodes"].keys() != other["nodes"].keys():
            found.append(f"pod {number}: nodes: {[*one['nodes']]} != {[*other['nodes']]}")
            continue
        for node, mine in one["nodes"].items():
            yours = other["nodes"][node]
            for key in ("feasible", "code", "reasons", "score", "allocations"):
                left, right = mine.get(key), yours.get(key)
                if key == "score":
                    left, right = left or 0, right or 0
                if key == "allocations":
                    left, right = _sorted(left or {}), _sorted(right or {})
                if left != right:
                    found.append(f"pod {number}: {node}: {key}: {left} != {right}")
    return found


def _sorted(value: Any) -> Any:
    """Return an allocation with the values of node selectors in order, without empty parts."""
    if isinstance(value, dict):
        found = {name: _sorted(one) for name, one in value.items()}
        if isinstance(found.get("values"), list):
            found["values"].sort()
        return {name: one for name, one in found.items() if one not in ([], {}, None)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value
