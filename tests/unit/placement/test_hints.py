"""Changes about which the queueing hints of kube-scheduler 1.35 to 1.37 differ. Muster has none:
with every release a shard wakes a refused pod when it fits, and only then (ADR 0007).
"""

from typing import NamedTuple

import pytest

from services.placement.core.preemption import nominations
from shared.events.base import Event
from shared.events.ingest import NodesSet, PodsAssigned, PodsGone
from shared.events.placement import Improved
from shared.events.preemption import NominationCleared
from shared.model.columns import pack, unpack
from shared.model.objects import (
    HOSTNAME,
    Node,
    PodSpec,
    PodTerm,
    Requirement,
    SpreadConstraint,
    Taint,
)
from shared.model.preemption.victims import Nominee
from shared.model.release import VERSIONS
from tests.unit.placement.shard import Shard, node, refused, spec

ASKED, OTHER, RELABELLED = 1, 2, 3
"""Signatures: the refused pod's, and another pod's before and after its labels change."""
WEB, DB = ((Requirement("app", "In", (app,)),) for app in ("web", "db"))


def near(app: str, **rules: object):
    return spec(namespace="ns", labels=(("app", app),), **rules)


def n1(**more: object) -> Node:
    return node("n1", labels={HOSTNAME: "n1"}, **more)


AWAY_FROM_WEB = PodTerm(HOSTNAME, WEB)
EVEN = SpreadConstraint(HOSTNAME, 1, selector=WEB, min_domains=2)
TAINTED = Taint("busy", effect="PreferNoSchedule")
LEFT = PodsGone(pack([9]))


class Case(NamedTuple):
    """A pod that node n1 rejects because of another pod on it, or nominated there; and a change."""

    asked: PodSpec
    change: Event
    other: PodSpec = near("web")
    is_nominated: bool = False
    wakes: bool = True


CASES = {
    "InterPodAffinity, a pod that kept it away leaves (1.36)": Case(
        near("web"), LEFT, near("db", pod_anti_affinity=(AWAY_FROM_WEB,))
    ),
    "InterPodAffinity, a pod that matches one of two terms leaves (1.37)": Case(
        near("db", pod_anti_affinity=(PodTerm(HOSTNAME, DB), AWAY_FROM_WEB)), LEFT
    ),
    "InterPodAffinity, a pod no longer matches one of two terms (1.37)": Case(
        near("x", pod_anti_affinity=(PodTerm(HOSTNAME, DB), AWAY_FROM_WEB)),
        PodsAssigned(0, pack([9]), pack([RELABELLED]), pack([1])),
    ),
    "InterPodAffinity, a pod loses its nomination (1.36)": Case(
        near("db", pod_anti_affinity=(AWAY_FROM_WEB,)),
        NominationCleared(1, 9, 0),
        near("web", priority=1),
        is_nominated=True,
    ),
    "PodTopologySpread, a pod loses its nomination (1.36)": Case(
        near("web", spread=(EVEN,)),
        NominationCleared(1, 9, 0),
        near("web", priority=1),
        is_nominated=True,
    ),
    "NodeAffinity, a taint is added (wakes until 1.36)": Case(
        spec(node_selector=(("disk", "ssd"),)),
        NodesSet(0, pack([1]), (n1(taints=(TAINTED,)),)),
        wakes=False,
    ),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_change_wakes_the_pods_that_fit_then(case, version):
    shard = Shard(compatibility=version).nodes(1, n1())
    shard.sig(ASKED, case.asked).sig(OTHER, case.other).sig(RELABELLED, near("y"))
    if case.is_nominated:
        nominations.nominate(shard.state, Nominee(1, 9, OTHER, 1))
    else:
        shard.assigned((9, OTHER, 1))
    assert refused(shard.dispatch(ASKED, 5).run()) == [5]
    woken = [event for event in shard.given(case.change).run() if isinstance(event, Improved)]
    assert [unpack(event.sigs).tolist() for event in woken] == [[ASKED] if case.wakes else []]
