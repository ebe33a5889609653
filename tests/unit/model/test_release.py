"""Releases of kube-scheduler: their gates, and which changes to them are refused."""

import pytest

from shared.model.release import NODE_DECLARED_FEATURES, STORAGE_CAPACITY_SCORING, VERSIONS, release


def test_gates_follow_the_version_unless_given():
    declared = [release(version, {}).has(NODE_DECLARED_FEATURES) for version in VERSIONS]
    scoring = [release(version, {}).has(STORAGE_CAPACITY_SCORING) for version in VERSIONS]
    assert (declared, scoring) == ([False, True, True], [False, False, True])
    assert release("1.35", {STORAGE_CAPACITY_SCORING: True}).has(STORAGE_CAPACITY_SCORING)


@pytest.mark.parametrize(
    ("version", "gate", "is_on", "rule"),
    [
        ("1.34", "GenericWorkload", True, "compatibility must be one of 1.35, 1.36, 1.37"),
        (
            "1.37",
            "GenericWorklod",
            True,
            "no such gate of .*; did you mean Generic",
        ),
        ("1.35", "CompositePodGroup", False, "is not in 1.35, only in 1.37"),
        ("1.37", NODE_DECLARED_FEATURES, False, "is locked to true in 1.37"),
        ("1.36", "DRADeviceTaintRules", True, "Muster does not have it"),
        ("1.37", "SchedulerPopFromBackoffQ", False, "Muster always has it"),
    ],
)
def test_a_gate_that_cannot_be_set_is_refused_by_name(version, gate, is_on, rule):
    with pytest.raises(ValueError, match=rule):
        release(version, {gate: is_on})


@pytest.mark.parametrize("is_on", [True, False])
def test_a_gate_that_decides_nothing_is_taken_either_way(is_on):
    assert release("1.37", {"OpportunisticBatching": is_on}) == release("1.37", {})
