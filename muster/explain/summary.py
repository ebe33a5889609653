"""The summary of a run, as values and as text."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec.structs import asdict

from muster.checker.brute_force import Final, reasons_of
from muster.cli.run_directory import SUMMARY
from muster.cli.terminal import cell, duration
from muster.explain.run_summary import Allocation, Percentiles, RunSummary, WaitingReason
from muster.explain.tally import Tally
from shared.model.objects import CPU, MEMORY
from shared.model.text import one_line
from shared.scheduling.api.custom.failures import failures

if TYPE_CHECKING:
    from muster.app.runner import Outcome

REASONS_SHOWN = 8
PROBLEMS_SHOWN = 5
NAMES_SHOWN = 2


def summarise(
    world: str, outcome: "Outcome", run: Path, placements: int, is_virtual: bool
) -> RunSummary:
    """Return all values of the summary."""
    tally, final, verdict = outcome.tally, outcome.final, outcome.verdict
    spent_ms = max(1, tally.last_bound_ms - tally.first_ms) if tally.last_bound_ms >= 0 else 0
    answered, deciding_ms = _deciding(tally)
    pods = [spec for load in final.loads.values() for spec in load.pods.values()]
    have: Counter[str] = Counter()
    for node in final.nodes:
        have.update(dict(node.allocatable))
    gpus = [spec.gpu for spec in pods if spec.gpu is not None]
    return RunSummary(
        world=world,
        run=str(run),
        placements=placements,
        complete=outcome.complete,
        interrupted=outcome.is_interrupted,
        confirmed=not (outcome.is_interrupted or verdict.problems),
        problems=verdict.problems[:PROBLEMS_SHOWN],
        problems_count=len(verdict.problems),
        plugin_failures=failures(),
        nodes=len(final.nodes),
        pods=len(tally.pods),
        bound=len(pods),
        ever_bound=sum(1 for pod in tally.pods.values() if pod.bound_ms >= 0),
        waiting=len(final.waiting),
        gone=len(tally.gone),
        waiting_by_reason=dict(_largest(verdict.reasons)),
        waiting_reasons=_waiting_reasons(final),
        cpu_milli=Allocation(sum(spec.request(CPU) for spec in pods), have[CPU]),
        memory_bytes=Allocation(sum(spec.request(MEMORY) for spec in pods), have[MEMORY]),
        gpu_milli=Allocation(
            sum(gpu.milli * gpu.count for gpu in gpus),
            sum(node.gpu_count for node in final.nodes) * 1000,
        ),
        gangs=len(tally.gang_keys),
        gangs_committed=len(tally.gangs_committed),
        gangs_timed_out=len(tally.gangs_timed_out),
        gangs_that_another_packing_would_fit=verdict.another_packing,
        preemptions=tally.preemptions,
        victims=tally.victims,
        victims_beyond_budget=tally.victims_beyond_budget,
        batches=sum(tally.batches.values()),
        batch_size=_percentiles(_spread(tally.batches)),
        refusals=tally.refusals,
        virtual_time=is_virtual,
        world_seconds=round(outcome.world_s, 3),
        real_seconds=round(outcome.seconds, 3),
        seconds=spent_ms / 1000,
        deciding_seconds=deciding_ms / 1000,
        pods_per_second=round(answered * 1000 / deciding_ms) if deciding_ms else 0,
        busiest_second=_busiest_second(tally),
        latency_ms=_percentiles(
            sorted(p.bound_ms - p.seen_ms for p in tally.pods.values() if p.bound_ms >= 0)
        ),
        records=tally.records,
        void_records=tally.voids,
        journal_bytes=tally.bytes,
    )


def _deciding(tally: Tally) -> tuple[int, int]:
    """Return how many pods were bound or told why they wait, and for how long, ms, at least one pod
    waited for that for the first time.
    """
    spans = sorted((p.seen_ms, p.answered_ms) for p in tally.pods.values() if p.answered_ms >= 0)
    total_ms = until_ms = 0
    for seen_ms, answered_ms in spans:
        total_ms += max(0, answered_ms - max(seen_ms, until_ms))
        until_ms = max(until_ms, answered_ms)
    return len(spans), max(1, total_ms) if spans else 0


def _waiting_reasons(final: Final) -> list[WaitingReason]:
    """Return each reason of waiting pods: how many have it, for how many it is the reason of most
    nodes, and the names of the first of these.
    """
    pods: Counter[str] = Counter()
    first: dict[str, list[str]] = {}
    for pod in final.waiting:
        reasons = reasons_of(final, pod)
        pods.update(dict.fromkeys(reasons, 1))
        first.setdefault(reasons[0], []).append(pod.name)
    return [
        WaitingReason(reason, count, len(names), names[:NAMES_SHOWN])
        for reason, count in _largest(pods)
        for names in [first.get(reason, [])]
    ]


def _busiest_second(tally: Tally) -> int:
    """Return the most pods bound within one second."""
    times_ms = sorted(pod.bound_ms for pod in tally.pods.values() if pod.bound_ms >= 0)
    first = most = 0
    for at, time_ms in enumerate(times_ms):
        while time_ms - times_ms[first] >= 1000:
            first += 1
        most = max(most, at - first + 1)
    return most


def _largest(reasons: Counter[str]) -> Iterator[tuple[str, int]]:
    yield from sorted(reasons.items(), key=lambda item: (-item[1], item[0]))


def _spread(batches: Counter[int]) -> list[int]:
    return [size for size, count in sorted(batches.items()) for _ in range(count)]


def _percentiles(ordered: Sequence[int]) -> Percentiles | None:
    if not ordered:
        return None
    last = len(ordered) - 1
    return Percentiles(*(ordered[min(last, len(ordered) * p // 100)] for p in (50, 90, 99, 100)))


def rows(result: RunSummary) -> list[tuple[str, str]]:
    """Return the summary as (name, value), in reading order."""
    return [
        ("world", result.world),
        ("nodes", f"{result.nodes:,}"),
        ("pods", f"{result.pods:,}"),
        ("bound", f"{result.bound:,}"),
        ("waiting", f"{result.waiting:,}" + (" (confirmed)" if result.confirmed else "")),
        ("gone (evicted, finished)", f"{result.gone:,}"),
        ("CPU allocated", _share(result.cpu_milli, 1000, "cores")),
        ("memory allocated", _share(result.memory_bytes, 1 << 30, "GiB")),
        ("GPU allocated", _share(result.gpu_milli, 1000, "GPUs")),
        ("gangs committed", f"{result.gangs_committed:,} of {result.gangs:,}"),
        ("gangs timed out", f"{result.gangs_timed_out:,}"),
        ("preemptions", _preemptions(result)),
        ("batches", f"{result.batches:,}, pods in each {_spans(result.batch_size)}"),
        *_time_rows(result),
        ("arrival to bound", _spans(result.latency_ms, in_ms=True)),
        ("journals", f"{result.records:,} records, {result.journal_bytes / 1e6:.1f} MB"),
    ]


def _preemptions(result: RunSummary) -> str:
    beyond = result.victims_beyond_budget
    more = f", {beyond:,} beyond their budgets" if beyond else ""
    return f"{result.preemptions:,} ({_count(result.victims, 'victim')}{more})"


def _time_rows(result: RunSummary) -> list[tuple[str, str]]:
    """Return the speed. On virtual time deciding takes none, so only the real time is shown."""
    if result.virtual_time:
        world, real = duration(result.world_seconds), duration(result.real_seconds)
        return [("time", f"{world} of world time in {real}")]
    per_s, seconds = result.pods_per_second, duration(result.deciding_seconds)
    return [
        ("speed", f"{per_s:,} pods/s over the {seconds} in which pods waited to be decided"),
        ("busiest second", f"{result.busiest_second:,} pods bound"),
    ]


def headline(result: RunSummary) -> list[str]:
    """Return the three lines that a summary ends with."""
    bound, pods = result.ever_bound, result.pods
    share = f" ({100 * bound / pods:.0f} %)" if pods else ""
    first = f"{bound:,} of {_count(pods, 'pod')} bound{share}"
    first += f", {result.gone:,} of them gone since" if result.gone else ""
    first += f"; {result.waiting:,} waiting"
    if not result.confirmed:
        first += " (not confirmed)"
    amounts = {"CPU": result.cpu_milli, "memory": result.memory_bytes, "GPU": result.gpu_milli}
    shares = [
        f"{name} {100 * amount.allocated / amount.total:.1f} %"
        for name, amount in amounts.items()
        if amount.total
    ]
    second = ", ".join(shares) + " allocated" if shares else "nothing to allocate"
    if result.gangs:
        second += f"; {result.gangs_committed:,} of {_count(result.gangs, 'gang')} committed"
    if result.preemptions:
        second += f"; {_count(result.preemptions, 'preemption')}"
    if result.victims_beyond_budget:
        second += f", {_count(result.victims_beyond_budget, 'victim')} beyond a budget"
    (_, speed), *_rest = _time_rows(result)
    return [first, second, f"{speed}; kept in {result.run}"]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _share(amount: Allocation, unit: int, name: str) -> str:
    if not amount.total:
        return "none there"
    percent = 100 * amount.allocated / amount.total
    have, total = amount.allocated / unit, amount.total / unit
    return f"{percent:.1f} % ({have:,.1f} of {total:,.1f} {name})"


def _spans(percentiles: Percentiles | None, in_ms: bool = False) -> str:
    if percentiles is None:
        return "none"
    return " ".join(
        f"{name} {duration(value / 1000) if in_ms else f'{value:,}'}"
        for name, value in asdict(percentiles).items()
    )


def reason_rows(result: RunSummary) -> list[tuple[str, str]]:
    """Return the reasons of waiting pods with their counts, most frequent first."""
    reasons = result.waiting_reasons
    found = [(f"{one.pods:,}", _with_names(one)) for one in reasons[:REASONS_SHOWN]]
    if len(reasons) > REASONS_SHOWN:
        rest = len(reasons) - REASONS_SHOWN
        found.append(("", f"and {_count(rest, 'reason')} more, in the run's {SUMMARY}"))
    return found


def _with_names(reason: WaitingReason) -> str:
    """Return the reason, for how many pods it is the main one, and some of them."""
    if not reason.mainly:
        return reason.reason
    more = ", ..." if reason.mainly > len(reason.names) else ""
    mainly = "" if reason.mainly == reason.pods else f"mainly for {reason.mainly:,}: "
    return f"{reason.reason} ({mainly}{', '.join(reason.names)}{more})"


def show(result: RunSummary, out: TextIO) -> None:
    """Print tables in a terminal, plain lines elsewhere."""
    if out.isatty():
        from rich.console import Console
        from rich.table import Table

        console = Console(file=out)
        table = Table(title="Summary", show_header=False, title_justify="left")
        for name, value in rows(result):
            table.add_row(name, cell(value))
        console.print(table)
        if result.waiting:
            reasons = Table("pods", "wait because of", title="Waiting", title_justify="left")
            for count, reason in reason_rows(result):
                reasons.add_row(count, cell(reason))
            console.print(reasons)
        for line in headline(result):
            console.print(cell(line))
        return
    for name, value in rows(result):
        print(f"{name:<26}{one_line(value)}", file=out)
    for count, reason in reason_rows(result):
        print(f"{'waiting for':<26}{count}  {one_line(reason)}", file=out)
    print(file=out)
    for line in headline(result):
        print(one_line(line), file=out)
