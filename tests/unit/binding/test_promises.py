"""Several shards choose volumes: the first choice is granted, and all shards learn of it."""

import msgspec
import pytest

from services.binding.core.core import BindingCore
from shared.events.base import Configured
from shared.events.binding import (
    BindFailed,
    VolumesAsked,
    VolumesGranted,
    VolumesOver,
    VolumesTaken,
)
from shared.events.placement import VolumesBound, VolumesFailed
from shared.model.columns import pack
from shared.model.volumes import Choice
from tests.support.steps import Steps
from tests.unit.binding.inputs import gone, named, nodes, plain, reserved

C_ON_V = Choice("a", "c", "uid-c", "v", "uid-v")
D_ON_V = Choice("a", "d", "uid-d", "v", "uid-v")
C_ON_W = Choice("a", "c", "uid-c", "w", "uid-w")
C_MADE = Choice("a", "c", "uid-c")
D_MADE = Choice("a", "d", "uid-d")
OF_OTHERS = Choice("b", "c", "uid-b")
PRE_BIND = 'running PreBind plugin "VolumeBinding": '
V_TAKEN = PRE_BIND + 'pv "v" is promised to another claim'
C_TAKEN = PRE_BIND + 'PVC "c" is promised another volume or node'


def chosen(pod: int, node: int, *choices: Choice, shard: int = 0):
    return msgspec.structs.replace(reserved({pod: node}), volumes=choices, shard=shard)


def mesh(*configured):
    steps = Steps(BindingCore(3))
    steps.given(Configured({"binding": dict(configured)}), nodes(1, 2, 3), named(1, 2, 3))
    return steps


def granted(steps, number: int = 1) -> None:
    """Grant volume v for claim c to pod 1 on node 1."""
    assert steps.when(chosen(1, 1, C_ON_V, shard=2)) == [
        VolumesGranted(number, 2, 1, "node-1", (C_ON_V,)),
        VolumesAsked(1, pack([1])),
    ]


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ((1, C_ON_V), (2, D_ON_V), V_TAKEN),
        ((1, C_ON_V), (1, C_ON_W), C_TAKEN),
        ((1, C_ON_V), (1, C_MADE), C_TAKEN),
        ((1, C_MADE), (1, C_ON_V), C_TAKEN),
        ((1, C_MADE), (2, C_MADE), C_TAKEN),
        ((1, C_MADE), (1, C_MADE), ""),
        ((1, C_ON_V), (2, C_ON_V), ""),
        ((1, C_MADE), (2, D_MADE), ""),
        ((1, C_MADE), (2, OF_OTHERS), ""),
        ((1, C_ON_W), (2, D_ON_V), ""),
    ],
)
def test_a_pod_that_contradicts_an_open_promise_is_refused(first, second, why):
    steps = mesh()
    steps.when(chosen(1, *first))
    steps.reload()
    events = steps.when(chosen(2, *second, shard=1))
    node, choice = second
    if why:
        failed = BindFailed(pack([2]), "refused", pack([node]))
        assert events == [VolumesTaken(2, node, why), failed]
    else:
        granted = VolumesGranted(2, 1, 2, f"node-{node}", (choice,))
        assert events == [granted, VolumesAsked(2, pack([2]))]
    steps.reload()


def test_of_two_simultaneous_pods_the_first_counts():
    steps = mesh()
    events = steps.when(chosen(2, 2, D_ON_V), chosen(1, 1, C_ON_V, shard=1))
    assert [type(one) for one in events] == [
        VolumesGranted,
        VolumesTaken,
        BindFailed,
        VolumesAsked,
    ]
    assert (events[0].pod, events[1].pod) == (2, 1)


@pytest.mark.parametrize("word", ["bound", "failed"])
def test_a_late_pod_is_refused_whatever_the_shard_reports(word):
    steps = mesh()
    granted(steps)
    late = chosen(2, 2, D_ON_V, shard=1)
    bound = VolumesBound(pack([2]), pack([2]), 7)
    events = steps.when(late, bound if word == "bound" else VolumesFailed(2, 2, "so"))
    assert plain(events) == [
        ("VolumesTaken", 2, 2, V_TAKEN),
        ("BindFailed", [2], "refused", [2]),
    ]


def test_bound_volumes_are_promised_until_facts_say_so():
    steps = mesh()
    granted(steps)
    events = steps.when(VolumesBound(pack([1]), pack([1]), 77))
    assert events[0] == VolumesOver(pack([1]), pack([77]))
    steps.reload()
    assert not steps.state.promised
    assert steps.when(chosen(2, 2, D_ON_V))[0] == VolumesGranted(2, 0, 2, "node-2", (D_ON_V,))


def test_a_deleted_pod_loses_its_promise():
    steps = mesh()
    granted(steps)
    events = steps.when(gone(1), chosen(2, 2, D_ON_V))
    assert events[:2] == [
        VolumesOver(pack([1]), pack([0])),
        VolumesGranted(2, 0, 2, "node-2", (D_ON_V,)),
    ]


def test_a_promise_to_two_pods_lasts_until_both_have_ended():
    steps = mesh()
    granted(steps)
    steps.when(chosen(2, 2, C_ON_V, shard=1))
    steps.when(gone(1))
    steps.reload()
    (taken, _failed) = steps.when(chosen(3, 3, D_ON_V))
    assert taken == VolumesTaken(3, 3, V_TAKEN)


def test_shards_get_the_grant_once_the_nodes_name_is_known():
    steps = mesh()
    assert steps.when(chosen(1, 4, C_ON_V)) == []
    steps.reload()
    (taken, _failed) = steps.when(chosen(2, 2, D_ON_V))
    assert taken == VolumesTaken(2, 2, V_TAKEN), "it is promised all the same"
    events = steps.when(nodes(4))
    assert events[0] == VolumesGranted(1, 0, 1, "node-4", (C_ON_V,))
    assert steps.when(gone(1))[0] == VolumesOver(pack([1]), pack([0]))


def test_an_ungranted_choice_is_not_reported_as_ended():
    steps = mesh()
    steps.when(chosen(1, 4, C_ON_V))
    assert plain(steps.when(gone(1))) == [("BindFailed", [1], "gone", [4])]
    steps.reload()


def test_the_pods_message_says_why_it_is_retried():
    steps = mesh(("status_patches", True))
    granted(steps)
    steps.when(chosen(2, 2, D_ON_V))
    assert V_TAKEN in (*steps.state.messages.values(), *steps.state.patches.values())


def test_one_shard_needs_no_grant():
    steps = Steps(BindingCore(1))
    steps.given(Configured({"binding": {}}), nodes(1, 2), named(1, 2))
    assert steps.when(chosen(1, 1, C_ON_V)) == [VolumesAsked(1, pack([1]))]
    assert steps.when(chosen(2, 2, D_ON_V)) == [VolumesAsked(2, pack([2]))]
