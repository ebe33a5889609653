"""Ingest's events about pods: numbers, signatures, names, assignments, deletions."""

import pytest

from shared.events.base import Configured
from shared.events.ingest import (
    BudgetCovers,
    PodsAssigned,
    PodsGone,
    PodsNamed,
    PodsPending,
    SignatureDefined,
    SignatureRetired,
)
from shared.events.observed import BudgetsSeen, InputRejected, NodesDeletedSeen, PodsSeen
from shared.model.columns import pack, unpack
from shared.model.objects import Budget
from tests.unit.ingest.inputs import LARGE, SMALL, bound, gone, ids, ingest, names, nodes, one, pods


def test_new_pods_are_numbered_named_and_pending_in_one_column():
    decided = ingest().when(pods("a", "b", "c", at=5, ordered_ms=7))
    assert decided == [
        SignatureDefined(1, SMALL),
        PodsNamed(pack([1, 2, 3]), "uid-a\nuid-b\nuid-c", "a\nb\nc", pack([5, 6, 7])),
        PodsPending(1, pack([1, 2, 3]), ordered_ms=7),
    ]


def test_a_single_pod_is_recorded_in_the_same_way():
    decided = ingest().when(pods("a", at=5, ordered_ms=7))
    assert decided == [
        SignatureDefined(1, SMALL),
        PodsNamed(pack([1]), "uid-a", "a", pack([5])),
        PodsPending(1, pack([1]), ordered_ms=7),
    ]


def test_equal_specs_share_a_signature_and_the_last_pod_retires_it():
    steps = ingest()
    steps.when(pods("a", "b"))
    assert SignatureDefined not in map(type, steps.when(pods("c", at=9)))
    assert names(steps.when(gone("a", "b"))) == ["PodsGone"]
    assert names(steps.when(gone("c"))) == ["PodsGone", "SignatureRetired"]
    assert one(steps.when(pods("d", at=10)), SignatureDefined) == SignatureDefined(2, SMALL)
    assert not steps.when(gone("c", "x"))


def test_older_views_are_ignored():
    steps = ingest()
    steps.when(nodes("n"), pods("a", at=5))
    assert steps.when(pods("a", at=4, spec=LARGE), pods("a", at=5)) == []
    assert steps.when(bound("a:n", at=4)) == []
    assert ids(one(steps.when(bound("a:n", at=6)), PodsAssigned)) == [1]


def test_a_known_pod_that_only_has_a_newer_revision_is_named_again():
    steps = ingest()
    steps.when(pods("a", "b", at=5))
    assert steps.when(pods("b", at=9)) == [PodsNamed(pack([2]), "uid-b", "b", pack([9]))]


def test_another_spec_or_lifted_gate_makes_the_pod_pending_again():
    steps = ingest()
    decided = steps.when(pods("a", "b", at=1, gated=True))
    assert one(decided, PodsPending).gated
    decided = steps.when(pods("a", at=5))
    assert one(decided, PodsPending) == PodsPending(1, pack([1]))
    decided = steps.when(pods("a", "b", at=7, spec=LARGE))
    assert names(decided) == ["SignatureDefined", "PodsNamed", "PodsPending", "SignatureRetired"]
    assert one(decided, PodsPending) == PodsPending(2, pack([1, 2]))
    assert one(decided, SignatureRetired).sig == 1


def test_assigned_pods_go_to_the_shard_that_owns_their_node():
    steps = ingest(placements=3)
    steps.when(nodes(*(f"n{i}" for i in range(12))))
    shard = {held.node.name: held.shard for held in steps.state.nodes.values()}
    on = [f"n{i}" for i in range(12)]
    decided = steps.when(pods(*(f"p{i}" for i in range(12)), on=" ".join(on)))
    assigned = [event for event in decided if isinstance(event, PodsAssigned)]
    assert {event.shard for event in assigned} == set(shard.values()) == {0, 1, 2}
    for event in assigned:
        for pod, node in zip(ids(event), unpack(event.nodes).tolist(), strict=True):
            assert shard[on[pod - 1]] == event.shard
            assert steps.state.node_by_id[node].node.name == on[pod - 1]
        assert set(unpack(event.sigs).tolist()) == {1}
    assert PodsPending not in map(type, decided)


def test_a_list_mixes_assigned_and_pending_pods():
    steps = ingest()
    steps.when(nodes("n1"))
    decided = steps.when(pods("a", "b", "c", on="- n1 -"))
    assert ids(one(decided, PodsNamed)) == [1, 2, 3]
    assert ids(one(decided, PodsAssigned)) == [2]
    assert ids(one(decided, PodsPending)) == [1, 3]


def test_echoes_and_foreign_binds_are_the_same_fact():
    steps = ingest()
    steps.when(nodes("n1", "n2"), pods("a", "b", "c", at=1))
    decided = steps.when(bound("c:n2", "a:n1", at=10))
    assert decided == [PodsAssigned(0, pack([3, 1]), pack([1, 1]), pack([2, 1]))]
    assert steps.when(bound("b:n1", at=20)) == [PodsAssigned(0, pack([2]), pack([1]), pack([1]))]
    assert steps.when(bound("b:n1", at=20), bound("x:n1", at=21)) == []


def test_pods_on_unknown_nodes_wait_for_the_node():
    steps = ingest()
    decided = steps.when(pods("a", "b", at=1, on="late late"), pods("c", at=5))
    assert PodsAssigned not in map(type, decided)
    assert ids(one(decided, PodsPending)) == [3]
    decided = steps.when(bound("c:late", at=9))
    assert decided == [PodsPending(1, pack([3]), gated=True)], "not to be tried meanwhile"
    steps.when(gone("b"))
    assert steps.when(nodes("other"))[1:] == []
    decided = steps.when(nodes("late"))
    assert names(decided) == ["NodesSet", "PodsAssigned"]
    assert (ids(decided[1]), unpack(decided[1].nodes).tolist()) == ([1, 3], [2, 2])
    assert not steps.state.waiting


def test_too_many_unknown_names_are_listed_again_when_nodes_come():
    steps = ingest(held_names_max=1)
    steps.when(pods("a", at=1, on="x"), pods("b", at=2, on="y"))
    assert steps.state.rejected == 1
    decided = steps.when(nodes("y"))
    assert names(decided) == ["NodesSet", "ListAsked"]
    decided = steps.when(pods("b", at=2, on="y"))
    assert ids(one(decided, PodsAssigned)) == [2]


def test_pods_of_a_deleted_node_wait_for_its_successor():
    steps = ingest()
    steps.when(nodes("n"), pods("a", on="n"))
    assert names(steps.when(NodesDeletedSeen("uid-n"))) == ["NodesGone"]
    decided = steps.when(nodes("n"))
    assert names(decided) == ["NodesSet", "PodsAssigned"]
    assert unpack(decided[1].nodes).tolist() == [2]


def test_a_pod_comes_back_under_another_number():
    steps = ingest()
    steps.when(pods("a", at=1))
    assert ids(one(steps.when(gone("a")), PodsGone)) == [1]
    assert ids(one(steps.when(pods("a", at=3)), PodsPending)) == [2]


def test_a_uid_twice_in_one_event_is_one_pod():
    steps = ingest()
    decided = steps.when(PodsSeen(SMALL, "u\nu", "a\na", pack([1, 2])))
    assert [ids(event) for event in decided if isinstance(event, PodsPending)] == [[1]]
    assert len(steps.state.pods) == 1


def test_pods_of_other_schedulers_are_known_but_not_pending():
    steps = ingest(schedulers=["muster"])
    assert names(steps.when(pods("a"))) == ["SignatureDefined", "PodsNamed"]


def test_memory_returns():
    steps = ingest()
    many = [f"p{i}" for i in range(5_000)]
    steps.when(pods(*many))
    assert len(steps.state.pods.ids) >= 5_000
    steps.when(gone(*many))
    assert len(steps.state.pods.ids) < 100
    assert not steps.state.sigs
    assert not steps.state.labelsets


def test_pods_keep_their_labels_in_a_snapshot_whatever_order_these_came_in():
    steps = ingest()
    for name in ("y", "x", "z"):
        steps.when(pods(name, labels=(("app", name),)))
    steps.reload()
    for name, pod in (("x", 2), ("y", 1), ("z", 3)):
        match = (("app", name),)
        budget = Budget(uid=name, namespace="default", name=name, match_labels=match, allowed=1)
        covers = one(steps.when(_seen(budget)), BudgetCovers)
        assert ids(covers) == [pod]


def test_budgets_cover_by_labels_within_their_namespace():
    steps = ingest()
    labels = (("app", "x"),)
    steps.when(pods("a", "b", at=1, labels=labels), pods("c", at=5, labels=(("app", "y"),)))
    steps.when(pods("d", at=6, labels=labels, namespace="other"))
    budget = Budget(uid="b", namespace="default", name="pdb", match_labels=labels, allowed=1)
    decided = steps.when(_seen(budget))
    assert names(decided) == ["BudgetSet", "BudgetCovers"]
    assert (decided[0].allowed, decided[0].name, ids(decided[1])) == (1, "default/pdb", [1, 2])
    decided = steps.when(pods("e", "f", at=9, labels=labels))
    assert ids(one(decided, BudgetCovers)) == [5, 6]
    assert steps.when(_seen(budget)) == []


def _seen(budget: Budget):
    return BudgetsSeen((budget,))


def test_rejected_input_is_counted():
    steps = ingest()
    assert steps.when(InputRejected("row 3", "cpu", "must be >= 0")) == []
    assert steps.state.rejected == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 1}, "ingest.batch: unknown option"),
        ({"held_names_max": -1}, "ingest.held_names_max: Expected `int` >= 0"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ingest().given(Configured({"ingest": options}))
