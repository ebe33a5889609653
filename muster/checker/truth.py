"""Compares the journals with the cluster: no bind without a decision, no false outcome."""

from collections import Counter
from collections.abc import Iterator

from muster.checker.binds import Binds
from muster.checker.gangs.attempts import Gangs
from muster.checker.inputs.facts import Facts
from muster.checker.inputs.history import ClusterHistory
from muster.checker.inputs.journals import Problem


def check(
    binds: Binds, gangs: Gangs, facts: Facts, history: ClusterHistory, epoch: int
) -> Iterator[Problem]:
    """Yield every disagreement between journals and cluster. At rest only."""
    accepted = history.accepted(epoch)
    yield from _once(history)
    yield from _outcomes(binds, facts, history, accepted)
    yield from _whole(gangs, binds, facts, history, accepted)


def _once(history: ClusterHistory) -> Iterator[Problem]:
    count = Counter(uid for uid, _node, _ours in history.binds)
    for uid, times in sorted(count.items()):
        if times > 1:
            yield ("no-double-bind", f"{uid} was bound {times} times")


def _outcomes(
    binds: Binds, facts: Facts, history: ClusterHistory, accepted: dict[str, str]
) -> Iterator[Problem]:
    """Compare the binds that the API accepted from us with the last decision of each pod."""
    name_of = {node: value.name for node, value in facts.nodes.items()}
    existing = {one.name for one in history.nodes}
    # A pod restored from a backup has several numbers.
    numbers: dict[str, list[int]] = {}
    for pod, uid in sorted(facts.uid_of.items()):
        numbers.setdefault(uid, []).append(pod)
    for uid, node in sorted(accepted.items()):
        pod = facts.id_of.get(uid, 0)
        settled = [one for number in numbers.get(uid, ()) for one in binds.settled.get(number, ())]
        truth = history.pods[uid]
        is_seen = node not in existing or name_of.get(facts.assigned.get(pod, 0)) == node
        if len(numbers.get(uid, ())) > 1 and is_seen:
            continue  # decided before a restore, landed after it, and observed, if its node exists
        if not settled:
            yield ("decision-for-bind", f"pod {pod} ({uid}) bound to {node} without a decision")
        elif settled[-1].outcome != "bound" and not truth.deleted:
            yield (
                "outcome-is-true",
                f"pod {pod} ({uid}) is on {node} by our bind, journal says {settled[-1]}",
            )
        elif settled[-1].outcome == "bound" and name_of.get(settled[-1].node) != node:
            yield ("outcome-is-true", f"pod {pod} is on {node}, journal says {settled[-1]}")
    for pod, settled in sorted(binds.settled.items()):
        uid = facts.uid_of.get(pod, "")
        if facts.id_of.get(uid) != pod:
            continue  # undone by a restore: the pod has a new number
        if settled[-1].outcome == "bound" and uid in history.pods:
            truth = history.pods[uid]
            if truth.deleted and history.undone:
                continue  # its bind may have been undone before the pod was deleted
            if truth.node != name_of.get(settled[-1].node):
                yield ("outcome-is-true", f"pod {pod}: journal says bound, cluster {truth.node!r}")


def _whole(
    gangs: Gangs, binds: Binds, facts: Facts, history: ClusterHistory, accepted: dict[str, str]
) -> Iterator[Problem]:
    """Check that members were bound only after their gang was committed, and then all of them."""
    for uid in sorted(accepted):
        pod = facts.id_of.get(uid, 0)
        gang = facts.gang_of.get(pod, 0)
        if gang and gang not in gangs.committed:
            yield ("gang-whole", f"pod {pod} of gang {gang} was bound, the gang never committed")
    for gang, members in sorted(gangs.committed.items()):
        for pod in sorted(members):
            uid = facts.uid_of.get(pod, "")
            truth = history.pods.get(uid)
            if truth is None or truth.deleted or truth.node or facts.id_of.get(uid) != pod:
                continue
            outcomes = [one.outcome for one in binds.settled.get(pod, [])]
            if not {"abandoned", "refused"}.intersection(outcomes):
                yield ("gang-whole", f"member {pod} of committed gang {gang}: {outcomes}")
