"""`muster defrag`: plans for a run, manifests or a live cluster, and prints them."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from muster.cli.errors import Fault, UsageFault
from muster.cli.options.release import AskedRelease
from muster.cli.output import print_json
from muster.cli.profiles import read_profiles
from muster.cli.run_directory import JOURNALS, chosen_run
from muster.cli.subject import subject_of
from muster.cli.terminal import cell, duration, print_line
from muster.defrag.answer import Applied, DefragAnswer, answer_of
from muster.defrag.cluster import Cluster
from muster.defrag.movable import TAINT, with_our_taint
from muster.defrag.plan import Plan, plan, plan_in_domain
from muster.defrag.read import amounts_pod, most_gpus, of_case, of_run, spec_of, without_unreadable
from shared.events.names import is_named
from shared.kubernetes.objects.errors import WorldError
from shared.model.objects import GPU
from shared.worlds.documents import STDIN, manifest_files, name_of, read_objects

if TYPE_CHECKING:
    from rich.table import Table

SHOWN_MAX = 10
log = logging.getLogger("muster.defrag")
SIMULATED = "simulated-"
Objects = Sequence[Mapping[str, Any]]
Reader = Callable[[Objects], Cluster]


@dataclass(frozen=True)
class Asked:
    """The words of the command line."""

    source: Path | None
    kubeconfig: str
    wanted: str
    count: int | None
    topology_key: str
    config: Path | None
    release: AskedRelease

    def plan(self, cluster: Cluster) -> Plan:
        """Return the plan for what was asked."""
        if self.topology_key:
            assert self.count is not None
            return plan_in_domain(cluster, self.count, self.topology_key)
        return plan(cluster, self.count)


def print_plan(asked: Asked, output: str, limits: tuple[int, float] | None) -> None:
    """Print the plan; with limits (pods at a time, seconds to wait) also carry it out. Raises
    UsageFault and WorldError; Fault if it was stopped.
    """
    if asked.kubeconfig:
        # Imported here: a plan for files needs no client.
        from muster.cli.commands.cluster_case import objects_in

        objects: Objects = objects_in(asked.kubeconfig)
        _warn_of_taint(objects, is_fatal=limits is not None)
        what, read = _reader(asked, objects, is_live=True)
        cluster = read(objects)
    elif asked.source == STDIN or (asked.source and not (asked.source / JOURNALS).exists()):
        files = [asked.source] if asked.source == STDIN else manifest_files([asked.source])
        objects = [one.values for file in files for one in read_objects(file)]
        what, read = _reader(asked, objects)
        cluster = read(objects)
    else:
        what, cluster = _run(asked)
    found = asked.plan(cluster)
    answer = answer_of(found, what, asked.count)
    if output == "text":
        _show(answer)
    if limits is not None and answer.places:
        from muster.cli.commands.defrag.apply import apply_plan

        say = print_line if output == "text" else _say_nothing
        answer.applied = apply_plan(asked.kubeconfig, read, asked.plan, found, limits, say)
    if output == "json":
        print_json(answer)
    if answer.applied is not None:
        _end(answer.applied, what, output)


def _warn_of_taint(objects: Objects, is_fatal: bool) -> None:
    """Log the nodes that another one keeps free, or has left so. Raises UsageFault instead if that
    is fatal.
    """
    if names := " ".join(with_our_taint(objects)):
        text = (
            f"nodes have the taint {TAINT}: another muster defrag is at work, or was killed. "
            f"If none is: kubectl taint nodes {names} {TAINT}-"
        )
        if is_fatal:
            raise UsageFault(text)
        log.warning("%s", text)


def _say_nothing(_line: str) -> None:
    """Print nothing: JSON is printed at the end."""


def _reader(asked: Asked, objects: Objects, is_live: bool = False) -> tuple[str, Reader]:
    """Return what should fit, and how a cluster of objects is read."""
    name = "cluster" if is_live else name_of(asked.source or Path())
    release = asked.release.chosen(asked.kubeconfig)
    profiles = read_profiles(asked.config)
    what = asked.wanted or most_gpus(map(_gpus, objects))
    is_named = what.startswith("pod/")
    wanted = _pending(what, objects) if is_named else amounts_pod(what)

    def cluster_of(objects: Objects) -> Cluster:
        return of_case(
            name,
            [one for one in objects if not (is_named and _same(one, wanted))],
            wanted,
            is_named=is_named,
            now_ms=time.time_ns() // 1_000_000 if is_live else None,
            config=profiles,
            release=release,
        )

    def read(objects: Objects) -> Cluster:
        try:
            return cluster_of(objects)
        except WorldError:
            if not is_live:
                raise
        kept, reasons = without_unreadable(objects, release)
        for node, reason in reasons.items():
            log.warning("%s%s", f"node {node} is left out: " if node else "", reason)
        return cluster_of(kept)

    return what, read


def _gpus(one: Mapping[str, Any]) -> int:
    if one.get("kind") != "Node":
        return 0
    found = str(one.get("status", {}).get("allocatable", {}).get(GPU, "0"))
    return int(found) if found.isdecimal() else 0


def _pending(words: str, objects: Objects) -> Mapping[str, Any]:
    """Return the pod that is named, which must have no node. Raises UsageFault."""
    subject = subject_of([words])
    pods = [one for one in objects if one.get("kind") == "Pod"]
    found = [one for one in pods if is_named(_name(one), subject.name, "")]
    if len(found) != 1:
        names = ", ".join(sorted(map(_name, found)))
        rule = f"may be {names}: name one" if found else "there is no such pod"
        raise UsageFault(f"--for {words}: {rule}")
    if found[0]["spec"].get("nodeName"):
        raise UsageFault(f"--for {words}: has a node already")
    return found[0]


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.get("kind") == "Pod" and _name(one) == _name(other)


def _name(pod: Mapping[str, Any]) -> str:
    metadata = pod["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"


def _run(asked: Asked) -> tuple[str, Cluster]:
    if asked.wanted.startswith("pod/"):
        raise UsageFault(f"--for {asked.wanted}: requires manifests or --kubeconfig")
    if asked.config is not None:
        raise UsageFault("--config: a run has its profiles")
    return asyncio.run(cluster_of_run(asked.wanted, chosen_run(asked.source, "")))


async def cluster_of_run(wanted: str, run: Path) -> tuple[str, Cluster]:
    """Return what should fit, and the cluster of a run. Raises UsageFault, and the errors of
    reading journals.
    """
    # Imported here: a plan for objects reads no journals.
    from muster.cli.recorded_run import recorded
    from muster.explain.why.journals import Journals
    from services.ingest.core.state import IngestState
    from shared.model.ids import INGEST

    async with recorded(run, "", 1) as found:
        if found.placements != 1:
            raise UsageFault(f"{run}: has {found.placements} shards: must be a run with one")
        journals = Journals(found)
        ingest = cast(IngestState, (await journals.fold(INGEST)).state)
        if not ingest.cluster.startswith(SIMULATED):
            raise UsageFault(f"{run}: is of a live cluster: give its --kubeconfig instead")
        (shard,) = await journals.placements()
        what = wanted or most_gpus(node.gpu_count for node in shard.nodes.values())
        binding, spec = await journals.binding(), spec_of(what, amounts_pod(what))
        return what, of_run(ingest, shard, binding, journals.now_ms(), spec)


def _show(answer: DefragAnswer) -> None:
    from rich.console import Console

    moves = [move for place in answer.places for move in place.moves]
    where = f" in {answer.domain}" if answer.domain else ""
    now, then = len(answer.free), len(answer.free) + len(answer.places)
    if moves:
        Console(soft_wrap=True, highlight=False).print(_table(answer))
    after = f", {then:,} after {_counted(len(moves), 'move')}" if moves else ""
    print_line(f"{answer.wanted}: {now:,} fit now{where}{after}")
    if answer.count is not None and then < answer.count:
        print_line(f"no more than {then:,} of {answer.count:,} can be made to fit")
    if moves:
        gpu, cpu = (duration(one / 1000) for one in (answer.lost_gpu_ms, answer.lost_cpu_ms))
        moved = _counted(len(moves), "pod")
        print_line(f"cost: {moved} restart and lose {gpu} of GPU time, {cpu} of CPU time")
    reasons: dict[str, list[str]] = {}
    for one in answer.stays:
        reasons.setdefault(one.reason, []).append(one.pod)
    for reason, pods in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
        more = f" and {len(pods) - SHOWN_MAX:,} more" if len(pods) > SHOWN_MAX else ""
        print_line(f"in the way, but {reason}: {', '.join(pods[:SHOWN_MAX])}{more}")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _table(answer: DefragAnswer) -> "Table":
    from rich.table import Table

    table = Table("node to empty", "pod", "fits on", "has run for")
    for place in answer.places:
        for move in place.moves:
            cells = (place.node, move.pod, move.to_node, duration(move.lost_ms / 1000))
            table.add_row(*map(cell, cells))
    return table


def _end(applied: Applied, what: str, output: str) -> None:
    """Say how it ended. Raises Fault if it was stopped, or nodes keep the taint."""
    if output == "text":
        for node, reason in applied.skipped.items():
            print_line(f"{node}: not emptied: {reason}")
        if applied.free is not None:
            moved = _counted(len(applied.moved), "move")
            print_line(f"{what}: {applied.free:,} fit now, after {moved}")
    if applied.tainted:
        nodes = " ".join(applied.tainted)
        raise Fault(f"the taint is left: kubectl taint nodes {nodes} {TAINT}-")
    if applied.stopped:
        raise Fault(f"stopped: {applied.stopped}")
