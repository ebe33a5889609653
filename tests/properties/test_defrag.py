"""A plan breaks no rule at any step, moves each pod once, and keeps what it promises. Sums and
rules are counted here without the scheduler's filters.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.defrag.plan import Plan, plan, plan_in_domain
from tests.unit.defrag.objects import GPU, cluster, gpu_node, gpu_pod, started

HOST = "kubernetes.io/hostname"
APART = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": HOST, "labelSelector": {"matchLabels": {"apart": "yes"}}}
    ]
}
Pod = dict[str, Any]
Nodes = dict[str, Pod]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Nodes, dict[str, Pod]]:
    """Return nodes and valid pods on them, by name."""
    nodes: Nodes = {}
    for number in range(draw(st.integers(3, 6))):
        name = f"{draw(st.sampled_from('ab'))}{number}"
        taint = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
        spec = taint if draw(st.integers(0, 7)) == 7 else {}
        nodes[name] = gpu_node(name, draw(st.sampled_from((8, 8, 4))), cpu=16, **spec)
    pods: dict[str, Pod] = {}
    for number in range(draw(st.integers(4, 14))):
        pod = draw(_pods(f"p{number:02d}"))
        at = draw(st.sampled_from(sorted(nodes)))
        if _fits(pod, at, nodes, pods):
            pod["spec"]["nodeName"] = at
            pods[pod["metadata"]["name"]] = pod
    return nodes, pods


@st.composite
def _pods(draw: st.DrawFn, name: str) -> Pod:
    spec: dict[str, Any] = {}
    kind = draw(st.sampled_from(("", "", "tolerates", "rack", "apart")))
    metadata: dict[str, Any] = {"labels": {"apart": "yes"}} if kind == "apart" else {}
    if kind == "tolerates":
        spec["tolerations"] = [{"key": "k", "operator": "Exists"}]
    elif kind == "rack":
        spec["nodeSelector"] = {"rack": draw(st.sampled_from("ab"))}
    elif kind == "apart":
        spec["affinity"] = {"podAntiAffinity": APART}
    if draw(st.integers(0, 4)) == 4:
        metadata["ownerReferences"] = []
    gpus, cpu = draw(st.sampled_from((1, 2, 3, 0))), str(draw(st.sampled_from((1, 2, 4))))
    status = started(draw(st.integers(0, 3599)))
    return gpu_pod(name, gpus=gpus, cpu=cpu, metadata=metadata, status=status, **spec)


def _amounts(pod: Pod) -> Counter[str]:
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    return Counter({name: int(amount) for name, amount in requests.items()})


def _free(node: Pod, pods: Iterator[Pod] | list[Pod]) -> Counter[str]:
    free = Counter({name: int(node["status"]["allocatable"][name]) for name in ("cpu", GPU)})
    for pod in pods:
        free.subtract(_amounts(pod))
    return free


def _fits(pod: Pod, at: str, nodes: Nodes, pods: dict[str, Pod]) -> bool:
    """Return whether a pod may be beside these pods on a node, by the rules that are drawn."""
    node, spec = nodes[at], pod["spec"]
    here = [one for one in pods.values() if one["spec"]["nodeName"] == at and one is not pod]
    free = _free(node, here)
    if any(free[name] < amount for name, amount in _amounts(pod).items()):
        return False
    if node["spec"].get("taints") and "tolerations" not in spec:
        return False
    if spec.get("nodeSelector", {}).get("rack", at[0]) != at[0]:
        return False
    return "affinity" not in spec or not any("affinity" in one["spec"] for one in here)


def _check(found: Plan, nodes: Nodes, pods: dict[str, Pod], wanted: int) -> None:
    """Carry the plan out, and check it at each step."""
    moved: set[str] = set()
    kept_free = {*found.free, *(one.node for one in found.places)}
    for place in found.places:
        assert place.moves
        for move in place.moves:
            name = move.pod.removeprefix("default/")
            assert name not in moved
            moved.add(name)
            pod = pods[name]
            assert pod["metadata"]["ownerReferences"]
            assert move.from_node == place.node == pod["spec"]["nodeName"]
            assert _fits(pod, move.to_node, nodes, pods)
            assert move.to_node not in kept_free
            pod["spec"]["nodeName"] = move.to_node
    for name, count in Counter([*found.free, *(one.node for one in found.places)]).items():
        free = _free(nodes[name], [one for one in pods.values() if one["spec"]["nodeName"] == name])
        assert free[GPU] >= wanted * count
        assert not nodes[name]["spec"].get("taints")


@given(clusters(), st.sampled_from((8, 4)), st.sampled_from((None, 1, 2)))
@settings(max_examples=150, deadline=None)
def test_a_plan_breaks_no_filter_moves_each_pod_once_and_frees_what_it_promises(
    drawn, wanted, count
):
    nodes, pods = drawn
    objects = [*nodes.values(), *pods.values()]
    found = plan(cluster(*objects, wanted=f"{GPU}={wanted}"), count)
    assert found == plan(cluster(*objects, wanted=f"{GPU}={wanted}"), count)
    assert count is None or len(found.free) + len(found.places) <= count
    _check(found, nodes, pods, wanted)
    after = plan(cluster(*nodes.values(), *pods.values(), wanted=f"{GPU}={wanted}"), count)
    assert len(after.free) == len(found.free) + len(found.places)


@given(clusters(), st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_a_plan_for_a_domain_frees_nodes_of_it_alone(drawn, count):
    nodes, pods = drawn
    found = plan_in_domain(
        cluster(*nodes.values(), *pods.values(), wanted=f"{GPU}=4"), count, "rack"
    )
    places = {*found.free, *(one.node for one in found.places)}
    assert {nodes[name]["metadata"]["labels"]["rack"] for name in places} <= {found.domain}
    _check(found, nodes, pods, 4)


@given(clusters())
@settings(max_examples=50, deadline=None)
def test_a_plan_changes_nothing_of_its_cluster(drawn):
    nodes, pods = drawn
    given_ = cluster(*nodes.values(), *pods.values(), wanted=f"{GPU}=8")
    assert plan(given_) == plan(given_)
