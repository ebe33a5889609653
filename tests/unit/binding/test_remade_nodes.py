"""A bind names its node by name: one that lands on a node recreated under that name is ours."""

from typing import Any

import pytest

from services.binding.shell import node_shown
from shared.events.ingest import NodesSet
from shared.model.api_outcome import Answer
from shared.model.columns import pack
from shared.model.objects import Node
from tests.unit.binding.inputs import (
    answers,
    assigned,
    binding,
    gone,
    nodes_gone,
    open_bind,
    plain,
)

OLD, OTHER, NEW = 1, 2, 7
OURS = ("Bound", [1], [OLD])
FOREIGN = ("BindFailed", [1], "foreign", [OLD])


def again() -> NodesSet:
    return NodesSet(0, pack([NEW]), (Node(uid="again", name="node-1"),))


def fenced(refused: bool = False) -> Any:
    """Return steps with a bind of pod 1 under way while its node is recreated; its fence
    is sent.
    """
    steps = binding()
    effect = open_bind(steps)
    if refused:
        steps.when(answers(effect, {1: Answer.REFUSED}))
    decided = steps.when(nodes_gone(OLD), again())
    assert refused or plain(decided) == [("FencesAsked", 2, [1])]
    steps.reload()
    return steps


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize(("node", "outcome"), [(NEW, OURS), (OLD, OURS), (OTHER, FOREIGN)])
def test_a_fact_about_the_new_node_is_that_of_our_bind(refused, node, outcome):
    steps = fenced(refused)
    assert plain(steps.when(assigned({1: node}))) == [outcome]
    assert not steps.state.lost_names


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("node-1", OURS),
        ("node-2", FOREIGN),
        ("unknown", FOREIGN),
        ("", ("BindFailed", [1], "abandoned", [OLD])),
    ],
)
def test_a_fences_result_is_compared_by_node_name(refused, name, outcome):
    steps = fenced(refused)
    shown = node_shown(steps.state, 1, name, OLD)
    assert plain(steps.when(answers(2, {1: Answer.DONE}, 50, shown))) == [outcome]
    assert not steps.state.lost_names


def test_a_name_is_kept_only_while_a_bind_to_it_is_open():
    steps = fenced()
    assert steps.state.lost_names == {1: "node-1"}
    steps.when(gone(1))
    assert not steps.state.lost_names
    idle = binding()
    idle.when(nodes_gone(OLD))
    assert not idle.state.lost_names


def test_a_bind_that_was_never_sent_keeps_no_name():
    steps = binding()
    effect = open_bind(steps)
    steps.when(answers(effect, {1: Answer.BUSY}))
    assert plain(steps.when(nodes_gone(OLD))) == [("BindFailed", [1], "abandoned", [OLD])]
    assert not steps.state.lost_names
