"""Brute force about a waiting pod: only room that certainly exists counts."""

import pytest

from muster.checker.filters.fits import Load, surely_not
from muster.checker.inputs.history import PodTruth
from muster.checker.inputs.journals import Entry, Journal
from muster.checker.waiting import Cluster, is_advised
from shared.machine.record import Claim, Record
from shared.model.objects import GpuRequest, Node, PodSpec

NODE = Node(uid="u", name="n", allocatable=(("cpu", 64_000), ("pods", 110)), gpu_count=2)


def cluster(*standing: tuple[int, int]) -> Cluster:
    """Return a cluster of one node with two devices; pods of (milli of one device, device mask; 0:
    unknown).
    """
    load = Load()
    for number, (milli, mask) in enumerate(standing, start=1):
        load.add(number, PodSpec(priority=0, gpu=GpuRequest(milli, 1)), mask)
    return Cluster([NODE], {"n": load})


def pod(milli: int, count: int = 1, priority: int = 0) -> PodTruth:
    spec = PodSpec(priority=priority, gpu=GpuRequest(milli, count))
    return PodTruth(uid="p", namespace="default", name="p", spec=spec)


@pytest.mark.parametrize(
    ("standing", "wanted", "room"),
    [
        ([(500, 1), (500, 1)], pod(1000), "n"),
        ([(500, 1), (500, 2)], pod(1000), None),
        ([(500, 0), (500, 0)], pod(1000), None),
        ([(500, 0)], pod(1000), "n"),
        ([(500, 0)], pod(1000, count=2), None),
        ([(500, 0)], pod(400), "n"),
        ([(700, 0), (700, 0)], pod(400), None),
    ],
)
def test_unreported_devices_may_be_any(standing, wanted, room):
    assert cluster(*standing).room_for(wanted) == room
    assert bool(cluster(*standing).copies(wanted, 1)) == bool(room)


@pytest.mark.parametrize(
    ("standing", "reason"),
    [
        ([(1000, 1)], None),
        ([(1000, 1), (1000, 2)], "gpu"),
        ([(1000, 0), (1000, 2)], "gpu"),
        # More than the node has: it is unknown which device the third pod shares.
        ([(1000, 0), (500, 2), (1000, 2)], None),
        ([(1000, 0), (500, 1), (1000, 2)], "gpu"),
    ],
)
def test_a_surplus_of_other_schedulers_may_be_on_any_device(standing, reason):
    (load,) = cluster(*standing).loads.values()
    assert surely_not(pod(1000).spec, NODE, load) == reason


def test_victims_release_unknown_devices_too():
    full = cluster((500, 0), (500, 0))
    assert full.room_for(pod(1000, priority=9)) is None
    assert full.room_by_force(pod(1000, priority=9)) == "n"
    assert full.room_by_force(pod(1000, priority=0)) is None


PLUGIN = {"name": "Clears", "sha256": "00"}
DEFAULT = {"name": "DefaultPreemption", "sha256": ""}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, False),
        ({"profiles": [{"post_filter": [DEFAULT]}, {"permit": [PLUGIN]}]}, False),
        ({"profiles": [{"post_filter": [DEFAULT]}, {"post_filter": [PLUGIN, DEFAULT]}]}, True),
        ({"extenders": [{"url": "http://h", "bind_verb": "bind"}]}, False),
        ({"extenders": [{"url": "http://h", "preempt_verb": "preempt"}]}, True),
        ({"extenders": [{"url": "http://h", "filter_verb": "filter"}]}, True),
    ],
)
def test_extenders_and_plugins_are_known_from_the_shards_configuration(options, said):
    claims = (None, Claim("o", "n", 1), Claim("o", "n", 1, config={"placement": options}))
    entries = [Entry(at, Record(at, 1, 0, claim=claim), []) for at, claim in enumerate(claims)]
    assert is_advised(Journal("placement/0", entries)) == said
