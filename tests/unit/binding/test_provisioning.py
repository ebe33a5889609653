"""Requests to the cluster autoscaler: the newest one is written, one effect at a time."""

from services.binding.core.provisioning import EFFECT_REQUESTS
from shared.events.binding import ProvisioningRefused, RequestsAsked
from shared.events.observed import RequestAnswers
from shared.events.queueing import ProvisioningAsked, ProvisioningWithdrawn
from shared.model.groups.provisioning import ProvisioningWrite
from tests.unit.binding.inputs import binding


def wanted(key: str = "a/g", **more: str) -> ProvisioningWrite:
    return ProvisioningWrite(key, key, "class", (1,), (2,), **more)


def test_the_newest_request_is_written_after_the_one_before():
    steps = binding()
    assert steps.when(ProvisioningAsked(1, wanted())) == [RequestsAsked(1, (wanted(),))]
    deleted = wanted(uid="u")
    assert steps.when(ProvisioningAsked(1, wanted()), ProvisioningWithdrawn(1, deleted)) == []
    assert steps.when(RequestAnswers(1, ("",))) == [RequestsAsked(2, (deleted,))]
    assert steps.when(RequestAnswers(1, ("",))) == []  # late
    assert list(steps.reload().state.effects) == [2]
    assert steps.when(RequestAnswers(2, ("",))) == []
    assert not steps.state.effects


def test_a_refused_request_is_reported_and_a_refused_deletion_is_not():
    steps = binding()
    steps.when(ProvisioningAsked(1, wanted()), ProvisioningWithdrawn(2, wanted("a/h", uid="u")))
    assert steps.when(RequestAnswers(1, ("may not create", "may not delete"))) == [
        ProvisioningRefused(("a/g",), ("may not create",))
    ]
    assert steps.core.due_ms(steps.state) is None


def test_many_requests_are_written_in_parts():
    steps = binding()
    asked = [ProvisioningAsked(n, wanted(f"a/g{n:03}")) for n in range(EFFECT_REQUESTS + 1)]
    (first,) = steps.when(*asked)
    (second,) = steps.when(RequestAnswers(first.effect, ("",) * EFFECT_REQUESTS))
    assert [len(first.requests), len(second.requests)] == [EFFECT_REQUESTS, 1]
