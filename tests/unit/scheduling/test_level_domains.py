"""Nodes by topology domain of several levels."""

import numpy as np

from shared.model.groups.topology import REST
from shared.model.ids import NodeId
from shared.scheduling.table.table import NodeTable
from tests.support.builders import model_node

LABELS: tuple[dict[str, str], ...] = (
    {"block": "x", "rack": "2"},
    {"block": "x", "rack": "1"},
    {"block": "y", "rack": "1"},
    {"block": "x", "rack": "1"},
    {"block": "y"},
    {},
)
LEVELS = ("block", "rack")


def table_of(labels=LABELS) -> NodeTable:
    made = NodeTable(1)
    for at, one in enumerate(labels):
        made.set_nodes([NodeId(at)], [model_node(f"n{at}", f"u{at}").fields(labels=one).obj()])
    return made


def nodes_of(made: NodeTable, mask) -> set[int]:
    return set(made.ids[mask].tolist())


def test_domains_are_sorted_and_nodes_without_a_label_are_in_none():
    made = table_of()
    found = made.domains(LEVELS)
    assert found.paths == [("x", "1"), ("x", "2"), ("y", "1")]
    assert nodes_of(made, found.within(("x", "1"))) == {1, 3}
    assert nodes_of(made, found.within(("x",))) == {0, 1, 3}
    assert nodes_of(made, found.within(())) == {0, 1, 2, 3, 4, 5}
    assert nodes_of(made, found.within(REST)) == {4, 5}
    assert not found.within(("z",)).any()
    row = made.row_of(NodeId(4))
    assert row is not None
    assert found.path_of(row) == ()


def test_sums_by_domain():
    made = table_of()
    amounts = np.array([10**at for at in made.ids.tolist()], np.int64)
    assert made.domains(LEVELS).sums(amounts).tolist() == [1010, 1, 100]


def test_broader_levels():
    found = table_of().domains(LEVELS)
    assert found.upto(2) == found.paths
    assert found.upto(1) == [("x",), ("y",)]
    assert found.upto(0) == [()]


def test_labels_that_no_node_has():
    found = table_of().domains(("zone",))
    assert found.paths == []
    assert found.upto(1) == []
    assert len(found.sums(np.zeros(6, np.int64))) == 0
    assert found.within(()).all()


def test_domains_follow_changes_of_nodes():
    made = table_of()
    assert made.domains(LEVELS) is made.domains(LEVELS)
    changed = model_node("n5", "u5").fields(labels={"block": "z", "rack": "9"}).obj()
    made.set_nodes([NodeId(5)], [changed])
    assert made.domains(LEVELS).paths[-1] == ("z", "9")
    made.remove_nodes([NodeId(2)])
    assert ("y", "1") not in made.domains(LEVELS).paths
