"""kube-scheduler's metrics, step by step: attempts, queues and preemption as it counts them."""

import pytest

from tests.scenarios.scene import Scene, node, play

PROFILE = "default-scheduler"


def measured(scene: Scene, name: str, **labels: str) -> float:
    """Return a metric that must be there."""
    value = scene.metric(name, **labels)
    assert value is not None, name
    return value


def attempts(scene: Scene, result: str) -> float | None:
    return scene.metric("scheduler_schedule_attempts_total", result=result, profile=PROFILE)


def bound_after(scene: Scene, count: str) -> float | None:
    return scene.metric("scheduler_pod_scheduling_sli_duration_seconds_count", attempts=count)


def waited_s(scene: Scene, count: str) -> float:
    return measured(scene, "scheduler_pod_scheduling_sli_duration_seconds_sum", attempts=count)


def incoming(scene: Scene, queue: str, event: str) -> float | None:
    return scene.metric("scheduler_queue_incoming_pods_total", queue=queue, event=event)


def pending(scene: Scene, queue: str) -> float | None:
    return scene.metric("scheduler_pending_pods", queue=queue)


def refused_by(scene: Scene, plugin: str) -> float | None:
    return scene.metric("scheduler_unschedulable_pods", plugin=plugin, profile=PROFILE)


@pytest.mark.parametrize("placements", [1, 3])
def test_a_pod_that_waits_for_room_is_an_unschedulable_and_a_scheduled_attempt(placements: int):
    async def story(scene: Scene) -> None:
        scene.pods("first", cpu_milli=4_000)
        await scene.settle()
        scene.pods("second", "third", cpu_milli=3_000)
        await scene.settle()
        assert (attempts(scene, "scheduled"), attempts(scene, "unschedulable")) == (1, 2)
        assert (pending(scene, "unschedulable"), refused_by(scene, "NodeResourcesFit")) == (2, 2)
        scene.delete("first")
        await scene.settle()
        assert scene.running("second", "third") == 1
        assert (attempts(scene, "scheduled"), attempts(scene, "unschedulable")) == (2, 3)
        assert (bound_after(scene, "1"), bound_after(scene, "2")) == (1, 1)
        assert waited_s(scene, "1") < 1
        assert 30 <= waited_s(scene, "2") < 32
        assert scene.metric("scheduler_pod_scheduling_attempts_sum") == 3
        assert incoming(scene, "active", "UnschedulablePodAdd") == 3
        assert incoming(scene, "unschedulable", "ScheduleAttemptFailure") == 3
        assert incoming(scene, "active", "ShardImproved") == 2
        assert (pending(scene, "unschedulable"), refused_by(scene, "NodeResourcesFit")) == (1, 1)

    play(story, node("n", 4_000), placements=placements)


def test_the_time_of_a_gated_pod_begins_when_its_last_gate_is_removed():
    async def story(scene: Scene) -> None:
        scene.pods("pod", cpu_milli=1_000, gated=True)
        await scene.settle()
        assert (pending(scene, "gated"), pending(scene, "active")) == (1, 0)
        assert incoming(scene, "unschedulable", "UnschedulablePodAdd") == 1
        scene.ungate("pod")
        await scene.settle()
        assert incoming(scene, "active", "UnschedulablePodUpdate") == 1
        assert (attempts(scene, "scheduled"), pending(scene, "gated")) == (1, 0)
        assert waited_s(scene, "1") < 1

    play(story, node("n", 4_000))


def test_a_preemptor_is_an_attempt_that_failed_and_one_after_its_victims_have_left():
    async def story(scene: Scene) -> None:
        scene.pods("small", "smaller", cpu_milli=2_000)
        await scene.settle()
        scene.pods("large", cpu_milli=4_000, priority=10)
        await scene.settle()
        assert scene.running("large") == 1
        assert scene.metric("scheduler_preemption_attempts_total") == 1
        assert scene.metric("scheduler_preemption_victims_count") == 1
        assert scene.metric("scheduler_preemption_victims_sum") == 2
        assert (attempts(scene, "scheduled"), bound_after(scene, "2")) == (3, 1)
        assert incoming(scene, "active", "AssignedPodDelete") == 1

    play(story, node("n", 4_000))


def test_each_member_of_a_gang_is_an_attempt():
    async def story(scene: Scene) -> None:
        scene.gang("default/g", 3)
        scene.pods("a", "b", "c", cpu_milli=2_000, gang="default/g")
        await scene.settle()
        assert attempts(scene, "scheduled") is None
        tries = attempts(scene, "unschedulable")
        assert tries is not None
        assert tries % 3 == 0
        assert pending(scene, "unschedulable") == 3
        scene.cluster.set_node(node("m", 4_000))
        await scene.settle()
        assert attempts(scene, "scheduled") == 3

    play(story, node("n", 4_000))


def test_an_attempt_lasts_from_its_dispatch_to_its_bind():
    async def story(scene: Scene) -> None:
        scene.pods("a", "b", cpu_milli=100)
        await scene.settle()
        labels = {"result": "scheduled", "profile": PROFILE}
        name = "scheduler_scheduling_attempt_duration_seconds"
        assert scene.metric(f"{name}_count", **labels) == 2
        spent_s = measured(scene, f"{name}_sum", **labels)
        assert 0 < spent_s < waited_s(scene, "1") + 0.001
        assert scene.metric(f"{name}_bucket", le="16.384", **labels) == 2

    play(story, node("n", 4_000))


def test_equal_pods_are_placed_by_fewer_searches_than_pods():
    async def story(scene: Scene) -> None:
        scene.pods(*"abcdefgh", cpu_milli=100)
        await scene.settle()
        assert measured(scene, "muster_batch_size_sum") == 8
        labels = {"journal": "placement/0"}
        assert measured(scene, "muster_search_pods_sum", **labels) == 8
        assert measured(scene, "muster_search_pods_count", **labels) < 8
        assert measured(scene, "muster_turn_duration_seconds_count", journal="queueing/0") > 1
        assert scene.metric("muster_effects_open", journal="binding/0") == 0

    play(story, node("n", 4_000))
