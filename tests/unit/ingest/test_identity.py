"""A pod's identity becomes part of its signature where an inter-pod rule looks at it, and nowhere
else.
"""

import pytest
from msgspec.structs import replace

from services.ingest.core.core import IngestCore
from shared.events.base import Configured
from shared.events.ingest import (
    NamespacesSet,
    PodsAssigned,
    PodsPending,
    PodsRelabelled,
    SignatureDefined,
)
from shared.events.observed import ObjectsDeletedSeen, ObjectsSeen
from shared.model.cluster_objects import Namespace
from shared.model.columns import unpack
from shared.model.objects import PodSpec, PodTerm, Requirement, SpreadConstraint
from tests.support.steps import Steps
from tests.unit.ingest.inputs import SMALL, gone, ids, ingest, names, nodes, one, pods

HOST = "kubernetes.io/hostname"
WEB, DB = (("app", "web"), ("run", "1")), (("app", "db"), ("run", "2"))
IS_WEB = (Requirement("app", "In", ("web",)),)
SPREAD = replace(SMALL, spread=(SpreadConstraint(HOST, 1, selector=IS_WEB),))


def anti(*namespaces: str, selects: bool = False) -> PodSpec:
    """Return a spec with anti-affinity to web pods of these namespaces, or of those that a selector
    matches.
    """
    team = (Requirement("team", "Exists"),) if selects else None
    return replace(SMALL, pod_anti_affinity=(PodTerm(HOST, IS_WEB, namespaces, team),))


def specs(events) -> dict[int, PodSpec]:
    return {event.sig: event.spec for event in events if isinstance(event, SignatureDefined)}


def sigs(event: PodsRelabelled) -> list[int]:
    found: list[int] = unpack(event.sigs).tolist()
    return found


def test_without_rules_pods_share_their_signature_wherever_they_are():
    steps = ingest()
    steps.when(pods("one", labels=WEB, namespace="a"))
    decided = steps.when(pods("two", labels=DB, namespace="b", terminating=True, at=5))
    assert names(decided) == ["PodsNamed", "PodsPending"]


def test_a_rule_gives_pods_of_its_namespace_their_identity_in_one_event():
    steps = ingest()
    steps.when(pods("far", labels=WEB, namespace="other"))
    steps.when(pods("web-1", labels=WEB), pods("db", labels=DB), pods("web-2", labels=WEB, at=9))
    decided = steps.when(pods("ruler", spec=SPREAD, at=20))
    assert names(decided) == [
        *("SignatureDefined", "SignatureDefined", "PodsRelabelled"),
        *("SignatureDefined", "PodsNamed", "PodsPending"),
    ]
    relabelled, defined = one(decided, PodsRelabelled), specs(decided)
    assert ids(relabelled) == [2, 3, 4]
    web, db, again = sigs(relabelled)
    assert web == again
    assert defined[web] == replace(SMALL, namespace="default", labels=(("app", "web"),))
    assert defined[db] == replace(SMALL, namespace="default", labels=(("app", "db"),))
    assert defined[one(decided, PodsPending).sig] == replace(SPREAD, namespace="default")


def test_the_old_signature_is_retired_after_its_last_pod_left_it():
    steps = ingest()
    steps.when(pods("web", labels=WEB))
    decided = steps.when(pods("ruler", spec=anti(), at=9))
    assert names(decided)[:3] == ["SignatureDefined", "PodsRelabelled", "SignatureRetired"]


def test_a_repeated_observation_records_nothing():
    steps = ingest()
    steps.when(pods("web", labels=WEB), pods("ruler", spec=SPREAD, at=9))
    decided = steps.when(pods("next", spec=replace(SPREAD, priority=3), at=12))
    assert names(decided) == ["SignatureDefined", "PodsNamed", "PodsPending"]


def test_interest_outlives_the_pod_with_the_rule():
    steps = ingest()
    steps.when(pods("ruler", spec=anti("a"), namespace="b"), gone("ruler"))
    decided = steps.when(pods("late", labels=WEB, namespace="a", at=30))
    assert one(decided, SignatureDefined).spec.labels == (("app", "web"),)


def test_a_running_pod_with_other_labels_stays_where_it_is():
    """If it were published as newly assigned, it would lose its start and its devices."""
    steps = ingest()
    steps.when(nodes("n"), pods("web", labels=WEB, on="n"), pods("ruler", spec=SPREAD, at=9))
    decided = steps.when(pods("web", labels=DB, on="n", at=12))
    assert ids(one(decided, PodsRelabelled)) == [1]
    assert not any(isinstance(event, PodsAssigned) for event in decided)
    decided = steps.when(pods("web", labels=DB, on="n", at=15, terminating=True))
    assert one(decided, SignatureDefined).spec.terminating
    assert names(decided)[1:] == ["PodsRelabelled", "SignatureRetired"]


def test_new_labels_of_a_pending_pod_reach_queue_and_shard():
    steps = ingest()
    steps.when(pods("web", labels=WEB), pods("ruler", spec=SPREAD, at=9))
    decided = steps.when(pods("web", labels=DB, at=12))
    assert names(decided) == [
        *("SignatureDefined", "PodsNamed", "PodsPending", "PodsRelabelled", "SignatureRetired")
    ]


def test_terminating_pods_are_known_when_a_rule_arrives():
    steps = ingest()
    steps.when(nodes("n"), pods("old", "new", labels=WEB, on="n n"))
    steps.when(pods("old", labels=WEB, on="n", at=7, terminating=True))
    decided = steps.when(pods("ruler", spec=SPREAD, at=9))
    old, new = sigs(one(decided, PodsRelabelled))
    assert (specs(decided)[old].terminating, specs(decided)[new].terminating) == (True, False)


def test_numbers_of_signatures_do_not_depend_on_a_snapshot():
    """A loaded state numbers label sets again, in the order of their labels."""
    stays, loaded = Steps(IngestCore()), Steps(IngestCore())
    for steps in (stays, loaded):
        steps.when(Configured({}), pods("web", labels=WEB), pods("db", labels=DB))
    loaded.reload()
    ruler = pods("ruler", spec=SPREAD, at=9)
    assert stays.when(ruler) == loaded.when(ruler)


def test_namespace_labels_are_recorded_once_a_rule_selects_by_them():
    steps = ingest()
    a = Namespace(uid="1", name="a", labels=(("team", "x"),))
    b = Namespace(uid="2", name="b")
    assert not any(isinstance(e, NamespacesSet) for e in steps.when(ObjectsSeen((b, a))))
    decided = steps.when(pods("ruler", spec=anti(selects=True)))
    assert decided[0] == NamespacesSet((("a", (("team", "x"),)), ("b", ())))
    assert names(decided)[1:] == ["SignatureDefined", "PodsNamed", "PodsPending"]
    changed = replace(b, labels=(("team", "y"),))
    decided = steps.when(ObjectsSeen((changed,)), ObjectsDeletedSeen("1"))
    assert [e for e in decided if isinstance(e, NamespacesSet)] == [
        NamespacesSet((("b", (("team", "y"),)),)),
        NamespacesSet((), "a"),
    ]
    assert NamespacesSet().to() == ("placement",)


def test_a_namespace_recreated_before_the_delete_exists():
    steps = ingest()
    steps.when(pods("ruler", spec=anti(selects=True)), ObjectsSeen((Namespace(uid="1", name="a"),)))
    new = Namespace(uid="2", name="a", labels=(("team", "x"),))
    decided = steps.when(ObjectsSeen((new,)), ObjectsDeletedSeen("1"))
    assert [e for e in decided if isinstance(e, NamespacesSet)][-1] == NamespacesSet(
        (("a", (("team", "x"),)),)
    )


def test_a_namespace_selector_reads_every_namespace_that_it_selects():
    steps = ingest()
    steps.when(pods("web", labels=WEB, namespace="far"))
    decided = steps.when(pods("ruler", spec=anti(selects=True), at=9))
    assert ids(one(decided, PodsRelabelled)) == [1]


@pytest.mark.parametrize("rule", [anti(), SPREAD])
def test_several_shards_apply_all_rules(rule):
    steps = ingest(placements=2)
    steps.when(pods("web", labels=WEB))
    decided = steps.when(pods("ruler", spec=rule, at=9))
    assert ids(one(decided, PodsRelabelled)) == [1]
