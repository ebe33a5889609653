"""Extenders that filter and score, under faults: shards' owners end during a question about a pod
or a gang's member, and other owners ask again; no pod goes where its extender refuses it.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from msgspec import structs, to_builtins

from muster.simulation import run as running
from muster.simulation.run import Result, simulate
from muster.simulation.scenario import make_scenario
from shared.extenders.port import NodesLeft
from shared.extenders.values import POD, Extender
from shared.model.columns import split
from shared.model.world import Arrival, World
from shared.simulated.cluster import SimCluster
from tests.parity.planted.patching import planted
from tests.simulation.planted import IS_LONG, Bug

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

MOOD = "not in this mood"
NOT_HERE = "node(s) not for this pod"
WORDS = (MOOD, NOT_HERE)
JUDGE = Extender(url="http://h", filter_verb="filter", prioritize_verb="prioritize", weight=1)
FAILS_S, DEADLINE_S = 30.0, 60.0
"""A refused pod waits for five minutes; a pod with an error does not."""


def may_go(name: str, node: str) -> bool:
    """Return whether the extender allows the node: always the same answer."""
    return crc32(f"{name} {node}".encode()) % 4 != 0


class Moody:
    """Slow; leaves out nodes, prefers some, and fails at times in the beginning."""

    def __init__(self) -> None:
        self.gave: Counter[str] = Counter()

    async def filter_and_score(
        self, extenders: Any, namespace: str, name: str, nodes: Any
    ) -> NodesLeft:
        number = crc32(name.encode()) + self.gave.total()
        self.gave["asked"] += 1
        await asyncio.sleep(0.05 * (number % 5))
        if number % 11 == 3 and asyncio.get_running_loop().time() < FAILS_S:
            self.gave["error"] += 1
            return NodesLeft(error=MOOD)
        left = tuple(node for node in nodes if may_go(name, node))
        self.gave["left out"] += len(nodes) - len(left)
        failed = ((NOT_HERE, len(nodes) - len(left)),) if len(left) < len(nodes) else ()
        scores = tuple(crc32(node.encode()) % 50 for node in left)
        return NodesLeft(left, scores, failed, len(nodes) - len(left))

    async def process_preemption(self, extenders: Any, pod: Any, nodes: Any) -> Any:
        raise AssertionError("nobody goes here")


def known_by_name(world: World) -> World:
    """Each pod carries its identity, as adapters set it where an extender filters."""
    return structs.replace(world, arrivals=tuple(_named(world)))


def _named(world: World) -> Iterator[Arrival]:
    for arrival in world.arrivals:
        pods = arrival.pods
        uids, names = split(pods.uids), split(pods.names)
        for uid, name in zip(uids, names, strict=True):
            shown = tuple(sorted((*pods.spec.shown, (POD, f"{pods.namespace}/{name}"))))
            spec = structs.replace(pods.spec, shown=shown)
            yield structs.replace(
                arrival, pods=structs.replace(pods, spec=spec, uids=uid, names=name)
            )


def run(seed: int, placements: int) -> tuple[Result, Moody, SimCluster]:
    moody, clusters = Moody(), []

    class Kept(SimCluster):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            clusters.append(self)

    scenario = make_scenario(seed, placements=placements)
    world = known_by_name(scenario.world)
    told = to_builtins([JUDGE])
    config = {**scenario.config, "placement": {"extenders": told}}
    scenario = replace(scenario, world=world, config=config, judges=moody, deadline_s=DEADLINE_S)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "SimCluster", Kept)
        result = simulate(scenario, redecide=seed % 2 == 0)
    return result, moody, clusters[-1]


def wrong(result: Result, cluster: SimCluster) -> list[Any]:
    """That whoever fits may not wait is a rule of plugins; extenders have their own mind."""
    found: list[Any] = [one for one in result.problems if not any(w in one[1] for w in WORDS)]
    names = {
        uid: name
        for batch in cluster._batches
        for uid, name in zip(split(batch.pods.uids), split(batch.pods.names), strict=True)
    }
    return found + [
        ("extender", f"{names[one.uid]} on {one.node}")
        for one in cluster.history
        if one.kind == "bind" and not may_go(names[one.uid], one.node)
    ]


@pytest.mark.parametrize("placements", [1, 3])
@pytest.mark.parametrize("seed", range(5 if IS_LONG else 3))
def test_every_seed_is_safe_and_comes_to_rest(seed: int, placements: int) -> None:
    result, moody, cluster = run(seed, placements)
    assert not wrong(result, cluster), f"seed {seed}\n" + "\n".join(result.lines)
    assert moody.gave["left out"]


CORE = "services.placement.core"
BUGS = (
    Bug(
        "refused-nodes-for-members",
        f"{CORE}.extenders.gang_members",
        (
            "    rows, more = questions.existing_nodes(table, answer)\n",
            "    rows = np.arange(table.size)\n    more = rows * 0\n",
        ),
        first=(1, 0),
    ),
    Bug(
        "refused-nodes-for-pods",
        f"{CORE}.placing.cycle",
        (
            "    rows, scores = questions.existing_nodes(state.table, call.answer)\n",
            "    rows = np.arange(state.table.size)\n    scores = rows * 0\n",
        ),
        first=(1, 0),
    ),
    Bug(
        "extenders-not-asked-about-members",
        f"{CORE}.core",
        ("        asked = work_queue.member_call\n", "        asked = None\n"),
        first=(1, 0),
    ),
    Bug(
        "reasons-of-extenders-forgotten",
        f"{CORE}.extenders.retries",
        (
            (
                "        state.extender_refusals[event.sig] = "
                'structs.replace(event, attempt=0, ids=b"")\n'
            ),
            "        pass\n",
        ),
        first=(5, 8),
    ),
    Bug(
        "a-refused-promise-is-kept",
        f"{CORE}.decisions",
        ("        yield from questions.decide_promise_refused(state)\n", ""),
        first=(4, 8),
    ),
    Bug(
        "refused-nodes-for-other-pods",
        f"{CORE}.extenders.retries",
        ("np.isin(state.table.ids[rows], nodes)] if nodes else rows", "np.isin(rows, [])]"),
        first=(15,),
    ),
    Bug(
        "an-error-is-a-refusal",
        "services.queueing.core.inputs.answers",
        (
            "    if event.error:\n        _back_off_after_error(state, event)\n        return\n",
            "",
        ),
        first=(1, 0),
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug: Bug) -> None:
    with planted(bug):
        results = (run(seed, placements) for seed in bug.first for placements in (3, 1))
        assert any(wrong(result, cluster) for result, _moody, cluster in results)
