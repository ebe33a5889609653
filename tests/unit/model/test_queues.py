"""Queues: the tree, the queue of a pod, and what it uses there."""

import pytest

from shared.model.cluster_objects import Queue
from shared.model.objects import GpuRequest, PodSpec
from shared.model.queues import amounts, chains, queue_name, shown_amount, tree_faults


def queue(name: str, parent: str = "", **most: int) -> Queue:
    return Queue(uid=f"{name}-uid", name=name, parent=parent, max=tuple(sorted(most.items())))


def test_a_tree_has_no_faults():
    assert tree_faults([queue("b", "a"), queue("a"), queue("c", "b"), queue("d")]) == {}


@pytest.mark.parametrize(
    ("queues", "faults"),
    [
        ([queue("a", "gone")], {"a": "gone is no Queue"}),
        ([queue("a", "a")], {"a": "makes a cycle: a -> a"}),
        (
            [queue("a", "b"), queue("b", "c"), queue("c", "b"), queue("d")],
            dict.fromkeys("bc", "makes a cycle: b -> c -> b"),
        ),
        ([queue("a", "b"), queue("b", "gone"), queue("z", "b")], {"b": "gone is no Queue"}),
    ],
)
def test_a_fault_names_the_queue_and_the_rule(queues, faults):
    expected = {name: ("spec.parent", rule) for name, rule in faults.items()}
    assert tree_faults(queues) == tree_faults(reversed(queues)) == expected


def promised(name: str, parent: str = "", most: int | None = None, **least: int) -> Queue:
    limits = () if most is None else (("cpu", most),)
    guaranteed = tuple(sorted(least.items()))
    return Queue(uid=f"{name}-uid", name=name, parent=parent, max=limits, guaranteed=guaranteed)


def test_guarantees_below_a_queue_fit_in_its_guarantee_and_its_max():
    tree = [promised("all", most=6_000), promised("a", "all", cpu=4_000, pods=9)]
    assert tree_faults([*tree, promised("b", "all", 2_000, cpu=2_000)]) == {}
    assert tree_faults([*tree, promised("b", "a", 9_000, cpu=4_000)]) == {}


@pytest.mark.parametrize(
    ("queues", "field", "rule"),
    [
        (
            [
                promised("q", cpu=3_000),
                promised("a", "q", cpu=2_000),
                promised("b", "q", cpu=1_500),
            ],
            "spec.guaranteed.cpu",
            "is 3, and the queues below it are guaranteed 3500m",
        ),
        ([promised("q", most=1_000, cpu=2_000)], "spec.guaranteed.cpu", "is 2, above its max 1"),
        (
            [promised("q", most=1_000), promised("mid", "q"), promised("a", "mid", cpu=2_000)],
            "spec.max.cpu",
            "is 1, and the queues below it are guaranteed 2",
        ),
        (
            [promised("q", cpu=1_000), promised("mid", "q"), promised("a", "mid", cpu=2_000)],
            "spec.guaranteed.cpu",
            "is 1, and the queues below it are guaranteed 2",
        ),
    ],
)
def test_a_guarantee_that_cannot_be_given_is_a_fault(queues, field, rule):
    assert tree_faults(queues) == tree_faults(reversed(queues)) == {"q": (field, rule)}


def test_a_chain_ends_at_the_root():
    a, b, c = queue("a"), queue("b", "a"), queue("c", "b")
    assert chains([c, a, b]) == {"a": (a,), "b": (b, a), "c": (c, b, a)}


def test_a_pod_is_in_the_queue_of_its_label_or_its_namespace_or_the_default_one():
    label, known = {"muster.io/queue": "a"}, {"default": queue("default")}
    assert queue_name(label, "b", known) == "a"
    assert queue_name({"x": "y"}, "b", known) == "b"
    assert queue_name({}, "", known) == "default"
    assert queue_name({}, "", {}) == ""


def test_devices_and_cpu_count_in_thousandths():
    spec = PodSpec(requests=(("cpu", 500), ("memory", 7)), gpu=GpuRequest(1_000, 2))
    assert amounts(spec) == {"cpu": 500, "memory": 7, "nvidia.com/gpu": 2_000, "pods": 1}
    assert amounts(PodSpec(gpu=GpuRequest(250))) == {"nvidia.com/gpu": 250, "pods": 1}


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        *(("cpu", 1_500, "1500m"), ("cpu", 2_000, "2"), ("nvidia.com/gpu", 64_000, "64")),
        *(("memory", 3 << 29, "1536Mi"), ("memory", 5, "5"), ("memory", 0, "0"), ("pods", 7, "7")),
    ],
)
def test_amounts_are_shown_as_quantities(resource: str, amount: int, text: str):
    assert shown_amount(resource, amount) == text
