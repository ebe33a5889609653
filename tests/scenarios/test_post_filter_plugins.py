"""Plugins that choose victims, in the whole mesh: the example of docs/reference/plugins.md, alone
and with DefaultPreemption.
"""

from pathlib import Path
from typing import Any

import pytest

from muster.user_plugins.load import load
from shared.model.profile import DEFAULT_PREEMPTION, CustomPlugin, Profile
from shared.scheduling.api.custom.plugin import PLUGINS
from tests.scenarios.scene import Scene, node, play

FILE = Path(__file__).resolve().parents[2] / "examples" / "plugins" / "tenants.py"
DEFAULT = CustomPlugin(DEFAULT_PREEMPTION, "")
NOBODY = "no pods of the same tenant can make room"


def played(story: Any, *, beside: bool = False, **mesh: Any) -> None:
    load([FILE])
    own = CustomPlugin("Tenants", PLUGINS["Tenants"].sha256)
    order = (own, DEFAULT) if beside else (own,)
    profile = Profile(preempts=beside, post_filter=order)
    try:
        play(story, node("a", 4_000), node("b", 4_000), profiles=[profile], **mesh)
    finally:
        PLUGINS.clear()


def of(tenant: str) -> dict[str, Any]:
    return {"shown": (("labels.tenant", tenant),)}


def left(scene: Scene, *names: str) -> list[str]:
    return [name for name in names if f"uid-{name}" in scene.cluster.pods]


@pytest.mark.parametrize(
    "mesh",
    [{}, {"placements": 2}, {"batch": False}, {"grace_ms": 3_000}, {"beside": True}],
    ids=str,
)
def test_pods_of_the_same_tenant_make_room(mesh):
    reds, blues = ["r0", "r1", "r2", "r3"], ["b0", "b1", "b2", "b3"]

    async def story(scene: Scene):
        scene.pods(*reds, cpu_milli=1_000, **of("red"))
        await scene.settle()
        scene.pods(*blues, cpu_milli=1_000, priority=2, **of("blue"))
        await scene.settle()
        assert scene.running(*reds, *blues) == 8
        scene.pods("h0", "h1", cpu_milli=1_000, priority=5, **of("blue"))
        await scene.settle(60)
        assert scene.running("h0", "h1") == 2
        # DefaultPreemption would have the reds go, which are less important.
        assert left(scene, *reds) == reds
        assert len(left(scene, *blues)) == 2

    played(story, **mesh)


def test_a_pod_without_victims_waits_with_a_message_unless_another_plugin_is_asked():
    async def story(scene: Scene):
        scene.pods("r0", "r1", cpu_milli=4_000, **of("red"))
        await scene.settle()
        scene.pods("high", cpu_milli=1_000, priority=5, **of("blue"))
        await scene.settle(60)
        assert await scene.said("high") == f"0/2 nodes are available: 2 Insufficient cpu. {NOBODY}"
        assert left(scene, "r0", "r1") == ["r0", "r1"]
        scene.delete("r0")
        await scene.settle(60)
        assert scene.running("high") == 1

    played(story)

    async def another(scene: Scene):
        scene.pods("r0", "r1", cpu_milli=4_000, **of("red"))
        await scene.settle()
        scene.pods("high", cpu_milli=1_000, priority=5, **of("blue"))
        scene.pods("huge", cpu_milli=9_000, priority=9, **of("blue"))
        await scene.settle(60)
        assert scene.running("high") == 1
        assert len(left(scene, "r0", "r1")) == 1
        assert await scene.said("huge") == (
            f"0/2 nodes are available: 2 Insufficient cpu. {NOBODY}, "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )

    played(another, beside=True)


def test_equal_priority_and_never_preempting_pods_evict_no_pod():
    async def story(scene: Scene):
        scene.pods("r0", "r1", cpu_milli=4_000, priority=5, **of("red"))
        await scene.settle()
        scene.pods("equal", cpu_milli=1_000, priority=5, **of("red"))
        scene.pods("never", cpu_milli=1_000, priority=9, never_preempts=True, **of("red"))
        await scene.settle(60)
        assert scene.running("r0", "r1", "equal", "never") == 2

    played(story)
