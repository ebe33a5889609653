"""Filters: which nodes they reject, in kube-scheduler's words, and where removing pods
could help.
"""

import pytest

from shared.model.objects import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    GpuRequest,
    HostPort,
    Requirement,
    SelectorTerm,
    Taint,
    Toleration,
)
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.report import explain
from tests.unit.scheduling.tables import GI, at, node, rows, sig, spec, table_of

AFFINITY = "node(s) didn't match Pod's node affinity/selector"


def reasons(table, pod):
    return Kernel().reasons(table, sig(table, pod))


def passes(pod, *nodes) -> list[str]:
    """Return the names of the nodes that fit the pod."""
    table = table_of(*nodes)
    reports = explain(table, sig(table, pod))
    return sorted(report.name for report in reports if not report.messages)


def needs(key, operator, *values) -> SelectorTerm:
    return SelectorTerm(labels=(Requirement(key, operator, values),))


def field(key, operator, *values) -> SelectorTerm:
    return SelectorTerm(fields=(Requirement(key, operator, values),))


def test_a_cordoned_node_takes_only_pods_that_tolerate_it():
    table = table_of(node(1, unschedulable=True))
    assert reasons(table, spec(100)) == ((("node(s) were unschedulable", 1),), 0)
    key = "node.kubernetes.io/unschedulable"
    assert passes(spec(100, tolerations=(Toleration(key, "Exists"),)), table.nodes[0]) == ["n1"]


def test_a_pod_that_names_a_node_fits_only_there():
    nodes = [node(1), node(2)]
    assert passes(spec(100, node_name="n2"), *nodes) == ["n2"]
    table, words = table_of(*nodes), "node(s) didn't match the requested node name"
    assert reasons(table, spec(100, node_name="gone")) == (((words, 2),), 0)


@pytest.mark.parametrize(
    ("toleration", "passing"),
    [
        (Toleration("a", "Equal", "1", NO_SCHEDULE), True),
        (Toleration("a", "", "1"), True),
        (Toleration("a", "Equal", "2"), False),
        (Toleration("a", "Exists"), True),
        (Toleration("a", "Exists", "", NO_EXECUTE), False),
        (Toleration("", "Exists"), True),
        (Toleration("b", "Exists"), False),
    ],
)
def test_tolerations(toleration, passing):
    tainted = node(1, taints=(Taint("a", "1", NO_SCHEDULE),))
    assert bool(passes(spec(100, tolerations=(toleration,)), tainted)) is passing


@pytest.mark.parametrize(
    ("operator", "asked", "there", "passing"),
    [
        ("Gt", "9", "10", True),
        ("Gt", "10", "10", False),
        ("Lt", "10", "9", True),
        ("Lt", "-5", "-10", True),
        ("Lt", "-5", "0", False),
        ("Gt", "9", "010", False),
        ("Gt", "9", "+10", False),
        ("Gt", "9", "", False),
        ("Lt", "9", "-0", False),
        ("Gt", "9", str((1 << 63) - 1), True),
        ("Gt", "9", str(1 << 63), False),
    ],
)
def test_tolerations_that_compare_numbers(operator, asked, there, passing):
    """A taint's value that is no number in its shortest form is not tolerated."""
    tainted = node(1, taints=(Taint("a", there, NO_SCHEDULE),))
    toleration = Toleration("a", operator, asked)
    assert bool(passes(spec(100, tolerations=(toleration,)), tainted)) is passing


def test_a_taint_that_only_prefers_does_not_refuse():
    assert passes(spec(100), node(1, taints=(Taint("a", "", PREFER_NO_SCHEDULE),))) == ["n1"]
    table = table_of(node(1, taints=(Taint("a", "", NO_EXECUTE),)))
    assert reasons(table, spec(100)) == ((("node(s) had untolerated taint(s)", 1),), 0)


LABELLED = (
    node(1, labels={"zone": "x", "size": "3"}),
    node(2, labels={"zone": "y", "size": "10"}),
    node(3, labels={"size": "big"}),
    node(4, labels={"size": "-7"}),
)


@pytest.mark.parametrize(
    ("term", "names"),
    [
        (needs("zone", "In", "x", "z"), ["n1"]),
        (needs("zone", "In", "x", "y"), ["n1", "n2"]),
        (needs("zone", "NotIn", "x"), ["n2", "n3", "n4"]),
        (needs("zone", "Exists"), ["n1", "n2"]),
        (needs("zone", "DoesNotExist"), ["n3", "n4"]),
        (needs("size", "Gt", "3"), ["n2"]),
        (needs("size", "Lt", "10"), ["n1", "n4"]),
        (needs("size", "Gt", "-10"), []),  # no label value, so the API would refuse the term
        (needs("size", "Gt", "1", "2"), []),
        (needs("absent", "In", "x"), []),
        (SelectorTerm(), []),
        (field("metadata.name", "In", "n2", "n9"), ["n2"]),
        (field("metadata.name", "NotIn", "n2"), ["n1", "n3", "n4"]),
        (field("spec.other", "In", "n2"), []),
    ],
)
def test_required_terms(term, names):
    assert passes(spec(100, affinity_required=(term,)), *LABELLED) == names


def test_selector_and_terms_must_both_hold_and_terms_are_alternatives():
    terms = (needs("zone", "In", "x"), needs("zone", "In", "y"))
    pod = spec(100, node_selector=(("size", "10"),), affinity_required=terms)
    assert passes(pod, *LABELLED) == ["n2"]
    assert reasons(table_of(*LABELLED), pod) == (((AFFINITY, 3),), 0)


def test_a_pod_that_names_its_nodes_has_another_message_on_others():
    pod = spec(5000, affinity_required=(field("metadata.name", "In", "n2"),))
    expected = (("Insufficient cpu", 1), ("node(s) didn't satisfy plugin(s) [NodeAffinity]", 3))
    assert reasons(table_of(*LABELLED), pod) == (expected, 0)


def test_amounts_report_every_resource_that_does_not_suffice():
    table = table_of(node(1), node(2, cpu=1000, extra={"example.com/x": 2}))
    table.charge(sig(table, spec(3500, 7 * GI)), rows(at(table, 1)))
    pod = spec(900, 2 * GI, extra={"example.com/x": 1, "ephemeral-storage": 5})
    expected = (
        ("Insufficient cpu", 1),
        ("Insufficient ephemeral-storage", 2),
        ("Insufficient example.com/x", 1),
        ("Insufficient memory", 1),
    )
    # The nodes have no ephemeral storage at all, so nothing removed could help.
    assert reasons(table, pod) == (expected, 0)
    assert reasons(table, spec(900, 2 * GI)).resolvable == 1


def test_a_request_above_the_allocatable_is_unresolvable_and_too_many_pods_is_not():
    table = table_of(node(1, pods=1), node(2, pods=0))
    table.charge(sig(table, spec()), rows(at(table, 1)))
    assert reasons(table, spec()) == ((("Too many pods", 2),), 2)
    assert reasons(table, spec(4001)) == ((("Insufficient cpu", 2), ("Too many pods", 2)), 0)


def test_resources_that_are_not_requested_are_not_checked():
    table = table_of(node(1))
    table.charge(sig(table, spec(9000, 1 * GI)), rows(0))
    assert reasons(table, spec(1)).messages == (("Insufficient cpu", 1),)
    assert Kernel().place(table, sig(table, spec(0, 1 * GI)), 1).rows.tolist() == [0]


@pytest.mark.parametrize(
    ("held", "wanted", "free"),
    [
        (HostPort(80), HostPort(80), False),
        (HostPort(80), HostPort(81), True),
        (HostPort(80), HostPort(80, "UDP"), True),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80), False),
        (HostPort(80), HostPort(80, "TCP", "10.0.0.1"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), True),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.1"), False),
    ],
)
def test_host_ports(held, wanted, free):
    table = table_of(node(1))
    holder = sig(table, spec(host_ports=(held,)))
    table.charge(holder, rows(0))
    pod = spec(host_ports=(wanted,))
    message = "node(s) didn't have free ports for the requested pod ports"
    assert reasons(table, pod) == (((), 0) if free else (((message, 1),), 1))
    table.charge(holder, rows(0), None, -1)
    assert Kernel().place(table, sig(table, pod), 5).rows.tolist() == [0]


def test_gpu_models_and_devices():
    table = table_of(node(1, gpu_count=2, gpu_model="T4"), node(2))
    model = "node(s) didn't match Pod's GPU model"
    assert reasons(table, spec(gpu=GpuRequest(500, 1, ("P100",)))) == (((model, 2),), 0)
    whole = (("Insufficient nvidia.com/gpu", 2),)
    assert reasons(table, spec(gpu=GpuRequest(1000, 3))) == (whole, 0)
    share = sig(table, spec(gpu=GpuRequest(600)))
    picks = Kernel().place(table, share, 5)
    assert picks.masks.tolist() == [0b01, 0b10]
    table.charge(share, picks.rows, picks.masks)
    assert reasons(table, spec(gpu=GpuRequest(600))) == ((("Insufficient gpu", 2),), 1)


def test_only_the_first_refusing_plugin_of_a_node_is_reported():
    bad = node(1, cpu=100, unschedulable=True, taints=(Taint("a"),))
    pod = spec(500, node_selector=(("zone", "x"),))
    assert reasons(table_of(bad), pod) == ((("node(s) were unschedulable", 1),), 0)
    wrong_model = spec(500, gpu=GpuRequest(1000, 1, ("P100",)))
    share = spec(500, gpu=GpuRequest(500))
    both = (("Insufficient cpu", 1), ("Insufficient nvidia.com/gpu", 1))
    assert reasons(table_of(node(1, cpu=100)), wrong_model).messages == both
    assert reasons(table_of(node(1, cpu=100)), share).messages == (("Insufficient cpu", 1),)
