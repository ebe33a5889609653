"""Where the time goes: microseconds per pod by service and stage (`python -m loadtest.stages`).

Timers wrap the runtime's calls for this run only; they cost a few per cent. `read` is reading and
decoding other journals' records, `apply` is evolve of inputs, `decide` is decide with evolve of its
events, `append` is encoding and the durable append. The rest of the span is the simulated cluster,
the shells and the loop.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from loadtest import cases
from loadtest.one_process import Case, measure
from shared.machine import runtime
from shared.machine.core import step
from shared.machine.fold import apply_inputs
from shared.model.ids import SERVICES

STAGES = ("read", "apply", "decide", "append")
PROFILED = ("identical", "openb", "single", "distinct")

Spent = dict[tuple[str, str], float]


def timed(case: Case) -> tuple[Spent, int, float]:
    """Play a case with timers. Return ((service, stage) -> seconds, pods, span in seconds)."""
    spent: Spent = defaultdict(float)
    originals = (apply_inputs, step, runtime.Owner._gather, runtime.Owner._record)

    def plain(stage: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timer(core: Any, *rest: Any) -> Any:
            began_s = time.perf_counter()
            try:
                return call(core, *rest)
            finally:
                spent[core.journal.partition("/")[0], stage] += time.perf_counter() - began_s

        return timer

    def waiting(stage: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def timer(owner: Any, *rest: Any) -> Any:
            began_s = time.perf_counter()
            try:
                return await call(owner, *rest)
            finally:
                spent[owner.journal.partition("/")[0], stage] += time.perf_counter() - began_s

        return timer

    patched: Any = runtime
    patched.apply_inputs = plain("apply", originals[0])
    patched.step = plain("decide", originals[1])
    patched.Owner._gather = waiting("read", originals[2])
    patched.Owner._record = waiting("append", originals[3])
    try:
        run = measure(case)
    finally:
        patched.apply_inputs, patched.step = originals[:2]
        patched.Owner._gather, patched.Owner._record = originals[2:]
    return spent, run.pods, run.timing.span_s


def table(name: str, spent: Spent, pods: int, span_s: float) -> Table:
    """Return one case's table; nodes and claims are included, since they cannot be separated."""
    shown = Table(title=f"{name}: {pods:,} pods in {span_s:.2f} s, us per pod")
    for heading in ("service", *STAGES, "all"):
        shown.add_column(heading, justify="left" if heading == "service" else "right")
    for service in SERVICES:
        row = [spent[service, stage] / pods * 1e6 for stage in STAGES]
        shown.add_row(service, *(f"{value:.2f}" for value in (*row, sum(row))))
    return shown


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PROFILED:
        Console().print(table(chosen, *timed(cases.WORLDS[chosen]())))
