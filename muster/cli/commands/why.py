"""`muster why`: where a pod stands and why, for people and for programs."""

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from muster.cli.recorded_run import recorded
from muster.cli.run_directory import SUMMARY
from muster.cli.terminal import print_json, print_lines
from muster.explain.why.answers import Answer, Decided, Eviction, NodeAnswer, Pick
from muster.explain.why.pods import why_pod
from shared.scheduling.api.custom.failures import Failure, failures

NAMED_MAX = 8


def print_why(
    name: str, namespace: str, run: Path, node: str, bus: str, placements: int, output: str
) -> None:
    """Print the explanation. Raises UsageFault, Fault, BusCorrupt, BusUnavailable."""
    answer = asyncio.run(_asked(name, namespace, run, node, bus, placements))
    failed = _plugin_failures(run)
    if output == "json":
        print_json({**plain(answer), "plugin_failures": failed})
    else:
        lines = lines_of(answer, time.time_ns() // 1_000_000)
        print_lines([*lines, *(f"warning    {Failure(**one)}" for one in failed)])


def _plugin_failures(run: Path) -> list[dict[str, Any]]:
    """Return the failures of plugins in a finished run; else those that the answer itself met."""
    found: list[dict[str, Any]] = []
    with suppress(OSError, ValueError, KeyError):
        found = json.loads((run / SUMMARY).read_bytes())["plugin_failures"]
    return found or [asdict(failure) for failure in failures()]


async def _asked(
    name: str, namespace: str, run: Path, node: str, bus: str, placements: int
) -> Answer:
    async with recorded(run, bus, placements) as found:
        return await why_pod(found, name, namespace, node)


def plain(answer: Answer) -> dict[str, Any]:
    """Return the answer for programs: names instead of pairs, times as RFC 3339."""
    found: dict[str, Any] = msgspec.to_builtins(answer)
    found["reasons"] = [{"reason": text, "nodes": nodes} for text, nodes in answer.reasons]
    found["decided"] = _plain(answer.decided) if answer.decided is not None else None
    for one in found["nodes"]:
        one["scores"] = [{"plugin": plugin, "score": score} for plugin, score in one["scores"]]
    found["confirmed"] = [_plain(one) for one in answer.confirmed]
    found["ended"] = _rfc3339(found.pop("ended_ms"))
    if answer.evicted is not None:
        found["evicted"]["time"] = _rfc3339(found["evicted"].pop("time_ms"))
    return found


def _plain(one: Decided) -> dict[str, Any]:
    return {
        "journal": one.journal,
        "position": one.position,
        "time": _rfc3339(one.time_ms),
        "text": one.text,
    }


def _rfc3339(time_ms: int) -> str | None:
    """Return the time; None for a negative one."""
    if time_ms < 0:
        return None
    return _utc(time_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def lines_of(answer: Answer, now_ms: int) -> list[str]:
    """Return the answer as lines for people."""
    lines = [f"pod {answer.pod}: {_state(answer)}"]
    if answer.gang:
        lines.append(f"  gang {answer.gang}")
    if answer.message:
        lines.append(f"  {answer.message}")
    lines += [f"  {nodes:>7,} nodes: {text}" for text, nodes in answer.reasons if nodes]
    if answer.detail and (not answer.message or answer.message not in answer.detail):
        lines.append(f"  {answer.detail}")
    if answer.pick is not None:
        lines += _pick_lines(answer.pick)
    lines += [_node_line(one) for one in answer.nodes]
    if answer.evictions:
        lines.append(f"  evicted for it: {_names(answer.evictions)}")
    if answer.decided is not None:
        lines.append(f"decided    {_record(answer.decided, now_ms, answer.message)}")
    lines += [f"confirmed  {_record(one, now_ms)}" for one in answer.confirmed]
    return lines


def _state(answer: Answer) -> str:
    if answer.evicted is not None:
        return f"{answer.state} {_eviction(answer.evicted)}"
    if answer.ended_ms >= 0:
        was = f", it was on {answer.node}" if answer.node else ""
        return f"{answer.state} at {_at(answer.ended_ms)}{was}"
    return f"{answer.state} on {answer.node}" if answer.node else answer.state


def _eviction(one: Eviction) -> str:
    when = f" at {_at(one.time_ms)}" if one.time_ms >= 0 else ""
    gang = f" of gang {one.gang}" if one.gang else ""
    priority = "" if one.priority is None else f" (priority {one.priority})"
    count = f"1 of {one.victims} victims" if one.victims > 1 else "the only victim"
    return f"from {one.node}{when} for {one.by}{gang}{priority}, {count}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return f"{', '.join(names[:NAMED_MAX])}{more}"


def _pick_lines(one: Pick) -> list[str]:
    extended = f" ({one.extended} of it from extenders)" if one.extended else ""
    next_best = "no other node was feasible"
    if one.next_best >= 0:
        next_best = f"next best {one.next_best}{f' on {one.next_node}' if one.next_node else ''}"
    if not one.missing:
        feasible = f"{one.feasible:,} of {one.nodes:,} nodes were feasible"
        return [f"  score {one.score}{extended}, {next_best}; {feasible}"]
    lines = [f"  score {one.score}{extended}"]
    if one.feasible >= 0:
        first = f", for the first of {one.batch:,} pods placed together" if one.batch > 1 else ""
        lines[0] += f", {next_best}; nodes feasible: {one.feasible:,}{first}"
    return [*lines, f"  scores by plugin are not known: {one.missing}"]


def _node_line(one: NodeAnswer) -> str:
    if one.refused_by:
        return f"  {one.node}: refused by {one.refused_by}: {', '.join(one.reasons)}"
    scores = " + ".join(f"{plugin} {score}" for plugin, score in one.scores if score)
    return f"  {one.node}: score {one.score}{f' = {scores}' if scores else ''}"


def _record(one: Decided, now_ms: int, said: str = "") -> str:
    """Return a line for a record, without the text `said` above."""
    ago_s = max(0, now_ms - one.time_ms) / 1000
    text = one.text.removesuffix(f": {said}") if said else one.text
    return f"{one.journal} at {one.position}, {_at(one.time_ms)} ({ago_s:,.1f} s ago): {text}"


def _at(time_ms: int) -> str:
    return _utc(time_ms).strftime("%Y-%m-%d %H:%M:%S UTC")


def _utc(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)
