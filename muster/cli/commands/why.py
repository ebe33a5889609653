"""`muster why`: where a pod stands and why, for people and for programs."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from muster.cli.commands.runs import is_live_now
from muster.cli.errors import UsageFault
from muster.cli.output import RecordText, print_json, time_of
from muster.cli.recorded_run import Recorded, recorded
from muster.cli.run_directory import SUMMARY
from muster.cli.terminal import duration, print_lines, since
from muster.explain.why.answers import (
    Answer,
    Eviction,
    GangAnswer,
    Kept,
    NodeAnswer,
    OneNodeAnswer,
    Pick,
    Victim,
    utc,
)
from muster.explain.why.gangs import why_gang
from muster.explain.why.nodes import why_node
from muster.explain.why.pods import why_pod
from shared.model.text import counted
from shared.replay.story import began_ms
from shared.scheduling.api.custom.failures import Failure, failures

NAMED_MAX = 8


Found = Answer | GangAnswer | OneNodeAnswer


class Question(NamedTuple):
    """The words of the command line. `node`: why the pod is not there."""

    kind: str
    name: str
    namespace: str
    node: str


def print_why(asked: Question, run: Path, bus: str, placements: int, output: str) -> None:
    """Print the explanation. Raises UsageFault, Fault, BusCorrupt, BusUnavailable."""
    answer, start = asyncio.run(_asked(asked, run, bus, placements))
    answer.plugin_failures = _plugin_failures(run)
    if output == "json":
        print_json(answer)
    else:
        is_now = bool(bus) or is_live_now(run)
        lines = lines_of(answer, start, datetime.now(UTC) if is_now else None)
        print_lines([*lines, *(f"warning    {one}" for one in answer.plugin_failures)])


class _Failed(msgspec.Struct):
    """The part of a summary that is read."""

    plugin_failures: tuple[Failure, ...]


def _plugin_failures(run: Path) -> tuple[Failure, ...]:
    """Return the failures of plugins in a finished run; else those that the answer itself met."""
    found: tuple[Failure, ...] = ()
    with suppress(OSError, ValueError):
        found = msgspec.json.decode((run / SUMMARY).read_bytes(), type=_Failed).plugin_failures
    return found or tuple(failures())


async def _asked(asked: Question, run: Path, bus: str, placements: int) -> tuple[Found, datetime]:
    """Return the answer, and when the run began."""
    if asked.node and asked.kind != "pod":
        raise UsageFault(f"--node: is about a pod, not about a {asked.kind}")
    async with recorded(run, bus, placements) as found:
        answer = await _answer(asked, found)
        return answer, time_of(await began_ms(found.bus, found.journals))


async def _answer(asked: Question, run: Recorded) -> Found:
    if asked.kind == "gang":
        return await why_gang(run, asked.name, asked.namespace)
    if asked.kind == "node":
        return await why_node(run, asked.name)
    return await why_pod(run, asked.name, asked.namespace, asked.node)


def lines_of(answer: Found, start: datetime, now: datetime | None = None) -> list[str]:
    """Return the answer as lines for people. Records have their age where a run goes on now, else
    the time since its start, as in a story.
    """

    def when(time: datetime) -> str:
        if now is None:
            return since(time, start)
        return f"{duration(max(0.0, (now - time).total_seconds()))} ago"

    if isinstance(answer, GangAnswer):
        lines = _gang_lines(answer)
    elif isinstance(answer, OneNodeAnswer):
        lines = _one_node_lines(answer)
    else:
        lines = _pod_lines(answer)
    if answer.decided is not None:
        lines.append(f"decided    {_record(answer.decided, when, answer.message)}")
    confirmed = answer.confirmed if isinstance(answer, Answer) else ()
    return [*lines, *(f"confirmed  {_record(one, when)}" for one in confirmed)]


def _pod_lines(answer: Answer) -> list[str]:
    lines = [f"pod {answer.pod}: {_state(answer)}"]
    if answer.gang and not answer.message.startswith(f"gang {answer.gang}"):
        lines.append(f"  gang {answer.gang}")
    if answer.message:
        lines.append(f"  {answer.message}")
    lines += [
        f"  {one.nodes:>7,} node{'' if one.nodes == 1 else 's'}: {one.reason}"
        for one in answer.reasons
        if one.nodes
    ]
    if answer.detail and (not answer.message or answer.message not in answer.detail):
        lines.append(f"  {answer.detail}")
    if answer.pick is not None:
        lines += _pick_lines(answer.pick)
    lines += map(_node_line, answer.nodes)
    lines += [f"  room on {one.node} is kept for {_for_whom(one)}" for one in answer.kept]
    if answer.evictions:
        lines.append(_evictions_line(answer.evictions))
    return lines


def _gang_lines(answer: GangAnswer) -> list[str]:
    since = "" if answer.wait_start_time is None else f" since {utc(answer.wait_start_time)}"
    lines = [f"gang {answer.gang}: {answer.state}{since}"]
    if answer.message:
        lines.append(f"  {answer.message}")
    placed = [one for one in answer.members if one.node]
    missing = f": {answer.missing:,} more needed" if answer.missing else ""
    count = f"{len(placed):,} of {counted(len(answer.members), 'member')} bound"
    lines.append(f"  {count}, minCount {answer.min_count:,}{missing}")
    lines += _by_state(
        (one.state, f"{one.pod} ({one.node})" if one.node else one.pod) for one in answer.members
    )
    if answer.evictions:
        lines.append(_evictions_line(answer.evictions))
    if answer.next:
        lines.append(f"next       {answer.next}")
    return lines


def _by_state(pods: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each state, with its pods."""
    by_state: dict[str, list[str]] = {}
    for state, shown in pods:
        by_state.setdefault(state, []).append(shown)
    return [
        f"  {len(names):,} {state}: {_names(names)}" for state, names in sorted(by_state.items())
    ]


def _one_node_lines(answer: OneNodeAnswer) -> list[str]:
    where = "" if answer.shard is None else f", shard {answer.shard}"
    lines = [f"node {answer.node}: {answer.state}{where}"]
    if answer.message:
        lines.append(f"  left out: {answer.message}")
    if answer.taints:
        lines.append(f"  taints: {', '.join(answer.taints)}")
    if answer.amounts:
        amounts = (f"{one.resource} {one.requested} of {one.allocatable}" for one in answer.amounts)
        lines.append(f"  requested: {', '.join(amounts)}")
    lines += _by_state((one.state, f"{one.pod} (priority {one.priority})") for one in answer.pods)
    lines += [f"  kept for {_for_whom(one)}" for one in answer.kept]
    return lines


def _for_whom(kept: Kept) -> str:
    gang = f" of gang {kept.gang}" if kept.gang else ""
    until = f" until {_names(kept.victims)} left" if kept.victims else ", its victims have left"
    if kept.until_time is not None:
        gang, until = f" or its replacement, {gang[1:]}", f" until {utc(kept.until_time)}"
    return f"{kept.pod}{gang} (priority {kept.priority}){until}"


def _state(answer: Answer) -> str:
    if answer.evicted is not None:
        return f"{answer.state} {_eviction(answer.evicted)}"
    if answer.end_time is not None:
        was = f", it was on {answer.node}" if answer.node else ""
        return f"{answer.state} at {utc(answer.end_time)}{was}"
    where = "" if answer.state.endswith("leave") else "on "
    return f"{answer.state} {where}{answer.node}" if answer.node else answer.state


def _eviction(one: Eviction) -> str:
    when = "" if one.time is None else f" at {utc(one.time)}"
    if not one.by:
        return f"from {one.node}{when}, as gang {one.gang} was below its minCount"
    gang = f" of gang {one.gang}" if one.gang else ""
    priority = "" if one.priority is None else f" (priority {one.priority})"
    count = f"1 of {one.victims} victims" if one.victims > 1 else "the only victim"
    beyond = ", beyond its PodDisruptionBudget" if one.is_beyond_budget else ""
    claim = f", to give queue {one.claimed_for} its guarantee" if one.claimed_for else ""
    return f"from {one.node}{when} for {one.by}{gang}{priority}, {count}{claim}{beyond}"


def _evictions_line(victims: Sequence[Victim]) -> str:
    beyond = sum(one.is_beyond_budget for one in victims)
    more = f"; {beyond:,} of them beyond their PodDisruptionBudgets" if beyond else ""
    return f"  evicted for it: {_names([one.pod for one in victims])}{more}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return f"{', '.join(names[:NAMED_MAX])}{more}"


def _pick_lines(one: Pick) -> list[str]:
    kept = ", the place of a lost member" if one.was_kept else ""
    next_best = "no other node was feasible"
    if one.next_best is not None:
        next_best = f"next best {one.next_best}{f' on {one.next_node}' if one.next_node else ''}"
    if one.feasible is not None and one.nodes is not None:
        feasible = f"{one.feasible:,} of {counted(one.nodes, 'node')} feasible"
        return [f"  score {one.score}{kept}, {next_best}; {feasible}"]
    lines = [f"  score {one.score}{kept}"]
    if one.feasible is not None:
        first = f", for the first of {one.batch:,} pods placed together" if one.batch > 1 else ""
        lines[0] += f", {next_best}; nodes feasible: {one.feasible:,}{first}"
    return [*lines, f"  scores by plugin are not known: {one.missing}"]


def _node_line(one: NodeAnswer) -> str:
    if one.refused_by:
        return f"  {one.node}: refused by {one.refused_by}: {', '.join(one.reasons)}"
    scores = " + ".join(f"{part.plugin} {part.score}" for part in one.scores if part.score)
    return f"  {one.node}: score {one.score}{f' = {scores}' if scores else ''}"


def _record(one: RecordText, when: Callable[[datetime], str], said: str = "") -> str:
    """Return a line for a record, without the text `said` above."""
    text = one.text.removesuffix(f": {said}") if said else one.text
    return f"{one.journal} at {one.position}, {utc(one.time)} ({when(one.time)}): {text}"
