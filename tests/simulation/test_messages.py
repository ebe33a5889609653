"""Every waiting pod's message agrees with Filter: a message that names nodes is true of each node,
and where a node would take the pod the message says what it waits for nonetheless.

Two judges read whole meshes at rest: the brute-force check of runs, which shares no code with
services, and Filter as `muster why --node` answers. `MUSTER_MESSAGE_SEEDS` changes the number.
"""

import asyncio
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from muster.app.virtual_time import VirtualLoop
from muster.checker.brute_force import Final, Waiting, confirm
from muster.checker.check import check
from muster.checker.filters.fits import Load, device_room
from muster.checker.waiting import replay
from muster.explain.why.pods import node_answer
from muster.simulation.run import Run
from muster.simulation.scenario import make_scenario
from services.queueing.core.transitions import Pod
from shared.model.ids import QUEUEING, JournalName, placement

SEEDS = int(os.environ.get("MUSTER_MESSAGE_SEEDS", "24"))
LOOKS, LOOK_S = 8, 5.0
OF_NODES = re.compile(r"0/(\d+) nodes are available: (.+?)\.(?: .+)?")
TIMED_OUT = re.compile(r"^gang \S+ timed out after \S+ s: ")
SHORT = re.compile(r"gang .+: (\d+) of \d+ members have a node; \d+ more: .+\.(?: .+)?")
WAITING = "waiting for minCount pods from a gang to "

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_messages_of_waiting_pods_agree_with_filter(seed: int) -> None:
    placements = (1, 3)[seed % 2]
    print(f"seed {seed}, {placements} placements")
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(_false_messages(seed, placements)) == []


async def _false_messages(seed: int, placements: int) -> list[str]:
    """Return what is still false after each message had time to be written again."""
    made = make_scenario(seed, None, placements)
    # The judges read whole journals.
    run = Run(replace(made, policy=replace(made.policy, cut=False)))
    await run.play()
    assert not run.problems, run.problems
    proven: set[int] = set()
    loads: dict[str, Load] = {}
    for _look in range(LOOKS):
        await asyncio.sleep(LOOK_S)
        final = _final(run)
        if final.loads != loads:
            proven.clear()
        loads = final.loads
        problems = [*confirm(final, proven=proven).problems, *_filter_problems(run, final)]
        if not problems:
            break
    await run.mesh.stop()
    return problems


def _final(run: Run) -> Final:
    """Return the cluster with the messages and devices of the last epoch's journals."""
    epoch, placements, history = run.mesh.epoch, run.scenario.placements, run.history()
    names = run.names(epoch)
    report = check(run.log.records, names, placements, history, is_at_rest=False, epoch=epoch)
    said, facts = replay(report.journals[QUEUEING]), report.facts
    loads = [load for shard in report.shards for load in shard.loads.values()]
    devices = {pod: mask for load in loads for pod, mask in load.devices.items()}
    final = Final(history.nodes, gangs=dict(run.cluster.gangs))
    for at, (uid, pod) in enumerate(history.pods.items()):
        number = facts.id_of.get(uid, -at)
        if pod.node and not pod.deleted:
            load = final.loads.setdefault(pod.node, Load())
            load.add(number, pod.spec, devices.get(number, 0))
            final.running[pod.gang] += 1
        elif not pod.deleted:
            text = said.message.get(number, "")
            final.waiting.append(Waiting(number, pod.name, pod.spec, text, pod.gang, pod.gated))
    _leave_out_unknown(final)
    return final


def _leave_out_unknown(final: Final) -> None:
    """Leave out pods that ask for devices if a node has some that are not known: after a reset."""
    rooms = [device_room(node, final.load(node)) for node in final.nodes]
    if None in rooms:
        final.waiting = [pod for pod in final.waiting if pod.spec.gpu is None]


def _filter_problems(run: Run, final: Final) -> Iterator[str]:
    """Yield the messages that Filter contradicts."""
    refused: dict[int, tuple[Counter[str], list[str]]] = {}
    queue = _state(run, QUEUEING)
    for pod in final.waiting:
        if queue.pods.state_of(pod.number) is Pod.GATED:
            continue
        sig = int(queue.pods.sig[pod.number - queue.pods.base])
        if sig not in refused:
            refused[sig] = _filtered(run, final, sig, pod.number)
        problem = _contradiction(pod.message, len(final.nodes), *refused[sig])
        if problem:
            yield f"{pod.name}: {problem}: {pod.message}"


def _state(run: Run, journal: JournalName) -> Any:
    process = run.mesh.owner_of(journal)
    assert process is not None
    assert process.owner is not None
    return process.owner.state


def _filtered(run: Run, final: Final, sig: int, pod: int) -> tuple[Counter[str], list[str]]:
    """Return how many nodes have each reason, and the nodes that have none."""
    shards = [_state(run, placement(shard)) for shard in range(run.scenario.placements)]
    reasons, free = Counter[str](), list[str]()
    for node in final.nodes:
        answers = (node_answer(shard, sig, pod, node.name) for shard in shards)
        answer = next(one for one in answers if one is not None)
        reasons.update(answer.reasons)
        free += [] if answer.refused_by else [node.name]
    return reasons, free


def _contradiction(message: str, nodes: int, reasons: Counter[str], free: list[str]) -> str:
    """Return what Filter says against the message; empty if nothing."""
    short = SHORT.fullmatch(message)
    if short is not None:
        return f"Filter accepts {free}" if free and short[1] == "0" else ""
    of_nodes = OF_NODES.fullmatch(TIMED_OUT.sub("", message))
    if of_nodes is None:
        return "" if message.startswith(WAITING) else "says nothing that is known here"
    if free:
        return f"Filter accepts {free}"
    text = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return "" if (int(of_nodes[1]), of_nodes[2]) == (nodes, text) else f"Filter says {text}"
