"""The live checker's rules of volumes: each one broken, and a correct case."""

from typing import Any

import pytest

from tests.live.checker.volumes import BOUND, CHOSEN, ONE_POD
from tests.unit.live.history import History

ZONE = "topology.kubernetes.io/zone"


def claim(history: History, name: str, *modes: str, **notes: str) -> None:
    annotations = {BOUND: "yes", **notes}
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    spec = {"volumeName": f"of-{name}", "accessModes": list(modes)}
    history.store(f"persistentvolumeclaims/default/{name}", {"metadata": meta, "spec": spec})


def volume(history: History, name: str, zone: str = "", **spec: Any) -> None:
    labels = {ZONE: zone} if zone else {}
    csi = {"driver": "disk", "volumeHandle": name}
    ref = {"namespace": "default", "name": name.removeprefix("of-")}
    spec = {"csi": csi, "claimRef": ref, **spec}
    value = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    history.store(f"persistentvolumes/{name}", value)


def limit(history: History, node: str, count: int) -> None:
    driver = {"name": "disk", "allocatable": {"count": count}}
    history.store(f"csinodes/{node}", {"spec": {"drivers": [driver]}})


def bound(history: History, name: str, node: str, *claims: str) -> None:
    """Bind a pod of ours after a decision."""
    history.pod(name, "100m")
    history.know_pods(name)
    history.reserve((name, node))
    history.bind(name, node, "100m")
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    for change in history.changes:
        if change.key == f"/registry/pods/default/{name}":
            change.value["spec"]["volumes"] = volumes


@pytest.fixture
def history() -> History:
    made = History()
    for name, zone in (("n1", "a"), ("n2", "b")):
        made.node(name)
        made.changes[-1].value["metadata"]["labels"] = {ZONE: zone, "host": name}
    made.know_nodes()
    return made


def problems(history: History) -> list[str]:
    found = [text for text in history.verdict().problems if "was bound to" in text]
    return [text.rpartition(": ")[2] for text in found]


def on(host: str) -> dict[str, Any]:
    rule = {"key": "host", "operator": "In", "values": [host]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}


def test_nothing_is_wrong_with_a_pod_whose_claims_are_bound(history):
    claim(history, "c", ONE_POD, **{CHOSEN: "n1"})
    volume(history, "of-c", "a", nodeAffinity=on("n1"))
    limit(history, "n1", 1)
    bound(history, "p", "n1", "c")
    assert problems(history) == []


def test_a_claim_is_there_and_bound_to_a_volume_of_its_own(history):
    bound(history, "p", "n1", "c")
    assert problems(history) == ["claim default/c is not there"]
    claim(history, "d")
    history.changes[-1].value["metadata"]["annotations"] = {}
    bound(history, "q", "n1", "d")
    claim(history, "e")
    bound(history, "r", "n1", "e")
    claim(history, "f")
    volume(history, "of-f", claimRef={"namespace": "default", "name": "x"})
    bound(history, "s", "n1", "f")
    assert problems(history)[1:] == [
        "claim default/d is not bound",
        "volume of-e is not there",
        "volume of-f is not that of claim default/f",
    ]


@pytest.mark.parametrize(
    ("zone", "affinity", "is_wrong"),
    [
        ("", None, False),
        ("a", None, False),
        ("c__a", None, False),
        ("b", None, True),
        ("", on("n1"), False),
        ("", on("n2"), True),
        ("a", on("n2"), True),
    ],
)
def test_a_volume_is_reached_from_its_node(history, zone, affinity, is_wrong):
    claim(history, "c")
    volume(history, "of-c", zone, **({"nodeAffinity": affinity} if affinity else {}))
    bound(history, "p", "n1", "c")
    assert problems(history) == ["volume of-c cannot be reached"] * is_wrong


def test_a_chosen_node_is_kept_to(history):
    claim(history, "c", **{CHOSEN: "n2"})
    volume(history, "of-c")
    bound(history, "p", "n1", "c")
    bound(history, "later", "n1", "c")
    assert problems(history) == ["claim default/c was chosen for n2"]


def test_a_claim_for_one_pod_has_one(history):
    for name, modes in (("c", (ONE_POD,)), ("d", ("ReadWriteMany",))):
        claim(history, name, *modes)
        volume(history, f"of-{name}")
    bound(history, "p", "n1", "c", "d")
    bound(history, "q", "n2", "c", "d")
    assert problems(history) == ["claim default/c is another pod's"]


def test_a_node_takes_as_many_volumes_as_its_driver_says(history):
    limit(history, "n1", 1)
    for name in ("c", "d"):
        claim(history, name)
        volume(history, f"of-{name}")
    bound(history, "p", "n1", "c")
    bound(history, "again", "n1", "c")
    bound(history, "none", "n1")
    bound(history, "elsewhere", "n2", "d")
    assert problems(history) == []
    bound(history, "q", "n1", "d")
    assert problems(history) == ["2 volumes of disk where 1 may be"]
