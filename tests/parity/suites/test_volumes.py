"""Volumes: every answer is kube-scheduler's, every message is drawn, every planted bug shows."""

from typing import Any

import pytest

from muster.explain.scoring import score_case
from tests.parity.comparison.compare import differences
from tests.parity.comparison.muster_answer import our_answer, told
from tests.parity.comparison.tally import Tally
from tests.parity.generators.kinds import IN_CI
from tests.parity.generators.preemption import differences as preempting_differences
from tests.parity.generators.volumes import (
    CLAIM,
    HOSTNAME,
    VOLUME,
    VOLUME_MESSAGES,
    ZONE,
    Object,
    case,
)
from tests.parity.oracle.client import Oracle
from tests.parity.planted.patching import planted
from tests.parity.planted.volumes import BUGS, KEPT_OR_ANY, LARGEST_FIRST
from tests.parity.suites.builders import node, pod
from tests.simulation.planted import Bug

V1 = {"apiVersion": "v1"}
CASES, PREEMPTING, PARTS = IN_CI["volumes"], IN_CI["preempt-volumes"], 2
SHRINK_TRIES = 600
EACH_MESSAGE_MIN, CANDIDATES_MIN = 5, 20


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_case_differs(part: int, oracle: Oracle):
    seeds = range(part, CASES, PARTS)
    theirs = oracle.ask_all(case(seed) for seed in seeds)
    for seed, answer in zip(seeds, theirs, strict=True):
        if differences(our_answer(case(seed)), answer):
            pytest.fail(told(seed, case(seed), oracle.ask, SHRINK_TRIES), pytrace=False)


def test_every_message_is_reached():
    tally = Tally()
    for seed in range(CASES):
        tally.add(our_answer(case(seed)))
    counts = {
        message: sum(count for text, count in tally.messages.items() if message in text)
        for message in VOLUME_MESSAGES
    }
    assert {message: n for message, n in counts.items() if n < EACH_MESSAGE_MIN} == {}


@pytest.mark.slow
def test_the_same_victims_on_the_same_nodes(oracle: Oracle):
    asked = [case(seed, preempt=True) for seed in range(PREEMPTING)]
    candidates = 0
    for seed, (one, theirs) in enumerate(zip(asked, oracle.ask_all(asked), strict=True)):
        assert "error" not in theirs, f"seed {seed}: {theirs}"
        assert preempting_differences(one, score_case(one), theirs) == [], f"seed {seed}"
        found = (pod.get("preemption", {}) for pod in theirs["pods"])
        candidates += any(one.get("candidates") for one in found)
    assert candidates >= CANDIDATES_MIN


def test_a_change_in_post_filters_message_after_an_early_end_is_noticed():
    """The unchanged answers are kube-scheduler's, as shown above."""
    old = "if profile.claims and ended_early"
    bug = Bug(
        "an-early-end-is-no-error", "muster.explain.scoring", (old, f"if False and {old[3:]}")
    )
    for seed in range(PREEMPTING):
        asked = case(seed, preempt=True)
        before = score_case(asked)
        with planted(bug):
            if preempting_differences(asked, score_case(asked), before):
                return
    pytest.fail("no case differs")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug):
    asked = [case(seed) for seed in bug.first]
    before = [our_answer(one) for one in asked]
    with planted(bug):
        assert [our_answer(one) for one in asked] != before


def volume(name: str, gib: int, on: str = "", **spec: Any) -> Object:
    """A volume of the class "static", to be reached from one node or from all."""
    if on:
        need = {"key": HOSTNAME, "operator": "In", "values": [on]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [need]}]}
        spec["nodeAffinity"] = {"required": terms}
    amounts = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": f"{gib}Gi"}}
    made = {**V1, "kind": VOLUME, "metadata": {"name": name}, "status": {"phase": "Available"}}
    return {**made, "spec": {"storageClassName": "static", **amounts, **spec}}


def claim(name: str, gib: int) -> Object:
    """A claim of the same class that waits for its first consumer."""
    wanted = {"requests": {"storage": f"{gib}Gi"}}
    spec = {"storageClassName": "static", "accessModes": ["ReadWriteOnce"], "resources": wanted}
    metadata = {"name": name, "namespace": "default"}
    return {**V1, "kind": CLAIM, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def user_of(*claims: str) -> Object:
    """A pod with these claims."""
    names = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    made: Object = pod(volumes=names)
    return made


STATIC = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "static"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
NODES = [node(name, labels={HOSTNAME: name}) for name in "ab"]
KEPT = {"claimRef": {"namespace": "default", "name": "c"}}
MADE_FOR = {
    # The small claim leaves the large volume to the other.
    LARGEST_FIRST: [volume("v", 15), volume("w", 30), claim("c", 10), claim("d", 20)],
    # One volume is kept for the claim: a free one on another node is of no use to it.
    KEPT_OR_ANY: [volume("v", 10, "b", **KEPT), volume("w", 10, "a"), claim("c", 10)],
}


@pytest.mark.parametrize(("bug", "best"), [(LARGEST_FIRST, ["a", "b"]), (KEPT_OR_ANY, ["b"])])
def test_which_volume_a_claim_takes(bug, best, oracle: Oracle):
    claims = [one["metadata"]["name"] for one in MADE_FOR[bug] if one["kind"] == CLAIM]
    asked = {"objects": [*NODES, STATIC, *MADE_FOR[bug]], "pods": [user_of(*claims)]}
    theirs = oracle.ask(asked)
    assert differences(our_answer(asked), theirs) == []
    assert theirs["pods"][0]["best"] == best
    with planted(bug):
        assert differences(our_answer(asked), theirs) != []


def same_disk_twice(zones: tuple[str, str]) -> Object:
    """A node that takes one disk of GCE's, and two claims of a disk with the same name."""
    limits = {"name": "pd.csi.storage.gke.io", "nodeID": "a", "allocatable": {"count": 1}}
    csi_node = {"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": [limits]}}
    objects: list[Object] = [node(), {"apiVersion": "storage.k8s.io/v1", **csi_node}]
    for number, zone in enumerate(zones):
        labels = {ZONE: zone} if zone else {}
        disk = {"gcePersistentDisk": {"pdName": "disk"}, "capacity": {"storage": "1Gi"}}
        metadata = {"name": f"v{number}", "labels": labels}
        objects.append({**V1, "kind": VOLUME, "metadata": metadata, "spec": disk})
        notes = {"pv.kubernetes.io/bind-completed": "yes"}
        claim = {"name": f"c{number}", "namespace": "default", "annotations": notes}
        named = {"volumeName": f"v{number}"}
        objects.append({**V1, "kind": CLAIM, "metadata": claim, "spec": named})
    held, asked = user_of("c0"), user_of("c1")
    held["metadata"]["name"], held["spec"]["nodeName"] = "held", "a"
    return {"objects": [*objects, held], "pods": [asked]}


@pytest.mark.parametrize(
    ("zones", "fits"),
    [
        (("eu-west-a", "eu-west-a"), True),
        (("eu-west-a", "eu-west-b"), False),
        (("eu-west-a__eu-west-b", "eu-west-b__eu-west-a"), True),
        (("eu-west-a__eu-west-b", "eu-west-a"), False),
        (("", ""), True),
    ],
)
def test_a_disk_is_known_by_its_zones(zones, fits, oracle: Oracle):
    asked = same_disk_twice(zones)
    theirs = oracle.ask(asked)
    assert differences(our_answer(asked), theirs) == []
    assert theirs["pods"][0]["nodes"]["a"]["feasible"] == fits
