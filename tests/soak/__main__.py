"""`make soak`: real servers, one Muster or several, changing pods, and a verdict.

It starts etcd and the API server, `muster run` for each scheduler name, and on request kills,
kube-scheduler and disruption budgets. It samples every process each ten seconds. The exit code is 1
when a pod was lost, moved, bound twice, or overfilled a node for a reason that the journals do not
give; when a gang was bound in part, or a process grew.
"""

import asyncio
import itertools
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from loadtest.cluster.load import PODS, Load, plain_node
from muster.flood.targets.kube import each
from shared.model.release import V1_35
from tests.live.checker.cluster_state import NODES as NODES_KEY
from tests.live.checker.cluster_state import PODS as PODS_KEY
from tests.live.checker.cluster_state import WORKLOADS as WORKLOADS_KEY
from tests.live.checker.cluster_state import Change
from tests.soak.arriving_pods import CLASSES, Plan, Tally, come_and_go
from tests.soak.budgets import BUDGETS, Budgets, guard, known, unguard
from tests.soak.history_checks import Judge
from tests.soak.overfilled_nodes import price, quantiles
from tests.soak.process_samples import Growth, Sample, growth, look, write
from tests.soak.stored_pods import store
from tests.support.etcd_history import EtcdHistory
from tests.support.kube_options import LOAD_TEST, KubeOptions
from tests.support.kube_server import KubeServers
from tests.support.server_process import ServerProcess

SAMPLE_S, SETTLE_S, SETTLE_MAX_S, DRAIN_S = 10.0, 10.0, 120.0, 180.0
LAST_SAMPLES = 7
HOUR_S, JUMP_EACH_S = 3_600, 7.0
MONOTONIC = "FAKETIME_DONT_FAKE_MONOTONIC=1"
ZONES = ("moon-1", "moon-2", "moon-3")
EVENTS_TTL = "--event-ttl=5m"
FILE: click.Path = click.Path(path_type=Path)
console = Console(width=140, highlight=False)


@dataclass
class Trial:
    """One run of everything."""

    servers: KubeServers
    plan: Plan
    folder: Path
    musters: dict[str, ServerProcess]
    keeps: bool
    tally: Tally = field(default_factory=Tally)
    judge: Judge = field(default_factory=Judge)
    budgets: Budgets | None = None
    changes: list[Change] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    kills: int = 0
    jumps: int = 0
    is_full: bool = False

    def drain(self, history: EtcdHistory) -> None:
        """Pass new changes to the judges."""
        found = history.drain()
        self.judge.take(found)
        if self.budgets is not None:
            self.budgets.take(found)
        if self.keeps:
            self.changes += found

    def sample(self) -> None:
        """Sample every Muster process."""
        counts = self.judge.created.total(), self.judge.bound.total(), len(self.judge.world.pods)
        for name, process in self.musters.items():
            found = look(process, self.folder / name, counts)
            self.samples += [found] if found else []
        write(self.folder / "samples.csv", self.samples)


def muster(
    servers: KubeServers, folder: Path, name: str, more: Sequence[str], clock: Path | None
) -> ServerProcess:
    """Not started yet; its run directory bears its name. `clock` is libfaketime, if any."""
    command = [] if clock is None else _with_clock(folder, clock)
    command += [sys.executable, "-m", "muster", "run", "--kubeconfig", str(servers.kubeconfig)]
    command += ["--scheduler-name", name, "--run-dir", str(folder / name), "-o", "json", *more]
    return ServerProcess(name, command, folder / f"{name}.log", lambda: True)


def _with_clock(folder: Path, library: Path) -> list[str]:
    """A prefix of a command that gives it the clock from a file."""
    _set_clock(folder, 2 * HOUR_S)
    file = f"FAKETIME_TIMESTAMP_FILE={folder / 'clock'}"
    return ["env", f"LD_PRELOAD={library}", file, "FAKETIME_NO_CACHE=1", MONOTONIC]


def _set_clock(folder: Path, ahead_s: int) -> None:
    """Of the Musters only. It is never behind the real one: certificates are not valid then."""
    (folder / "clock.new").write_text(f"+{ahead_s}\n", encoding="ascii")
    (folder / "clock.new").replace(folder / "clock")


async def jump(trial: Trial) -> None:
    """Forward by an hour, back by two, forward by one, and again, as long as pods come."""
    for hours in itertools.cycle((3, 1, 2)):
        await asyncio.sleep(JUMP_EACH_S)
        _set_clock(trial.folder, hours * HOUR_S)
        trial.jumps += 1


async def look_on(trial: Trial, history: EtcdHistory) -> None:
    """Sample and drain until cancelled."""
    due_s = time.monotonic()
    while True:
        trial.drain(history)
        if time.monotonic() >= due_s:
            trial.sample()
            due_s += SAMPLE_S
        await asyncio.sleep(0.2)


async def kill(trial: Trial, every_s: float) -> None:
    """One of the Musters at a time, as long as pods come; it starts again at once."""
    draw = random.Random(trial.plan.seed)
    while True:
        await asyncio.sleep(draw.uniform(0.5, 1.5) * every_s)
        process = draw.choice(list(trial.musters.values()))
        process.kill()
        process.start()
        trial.kills += 1


async def settle(trial: Trial) -> None:
    """Wait until every pod has a node or a message; a process may have to start first."""
    end_s = time.monotonic() + SETTLE_MAX_S
    await asyncio.sleep(SETTLE_S)
    while trial.judge.silent() and time.monotonic() < end_s:  # noqa: ASYNC110
        await asyncio.sleep(1.0)


async def drain_cluster(trial: Trial, load: Load) -> None:
    """Delete every pod that has a node, until none is left: then no pod was lost."""
    end_s = time.monotonic() + DRAIN_S

    async def delete(name: str) -> None:
        await load.client.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")

    while trial.judge.world.pods and time.monotonic() < end_s:
        pods = trial.judge.world.pods.values()
        await each([one["metadata"]["name"] for one in pods if one["spec"].get("nodeName")], delete)
        await asyncio.sleep(1.0)
    trial.problems += [f"{name} is lost: nothing else is there" for name in trial.judge.waiting()]


async def play(trial: Trial, history: EtcdHistory, kill_s: float, jumps: bool) -> None:
    """Run the load and the disturbances, then the end."""
    async with Load(trial.servers.kubeconfig) as load:
        looking = asyncio.create_task(look_on(trial, history))
        faults = [asyncio.create_task(kill(trial, kill_s))] if kill_s else []
        faults += [asyncio.create_task(jump(trial))] if jumps else []
        if trial.budgets is not None:
            await asyncio.to_thread(guard, trial.servers.api, trial.plan.schedulers[0])
        await come_and_go(load, trial.plan, trial.tally)
        for fault in faults:
            fault.cancel()
            with suppress(asyncio.CancelledError):
                await fault
        if trial.is_full:
            looking.cancel()
            return
        await settle(trial)
        trial.problems += [f"{name} waits without a reason" for name in trial.judge.silent()]
        trial.problems += [f"{gang} is bound in part" for gang in trial.judge.in_part()]
        if trial.budgets is not None:
            trial.drain(history)
            trial.budgets.is_over = True
            unguard(trial.servers.api)
        await drain_cluster(trial, load)
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


def _number(name: str, default: float, text: str) -> Callable[..., Any]:
    """Return an option with the type of its default."""
    return click.option(name, default=default, show_default=True, help=text)


@click.command(help=__doc__)
@_number("--seconds", 60.0, "How long pods come.")
@_number("--rate", 30.0, "Pods per second.")
@_number("--life", 20.0, "Seconds until a pod is deleted, on average.")
@_number("--nodes", 60, "Of 8 cores and 16 GiB.")
@_number("--musters", 1, "Each for a scheduler name.")
@_number("--kill-every", 0.0, "Seconds; 0 = never.")
@click.option("--scheduler", is_flag=True, help="kube-scheduler beside it.")
@click.option("--preempt", is_flag=True, help="Some pods have a higher priority.")
@click.option("--budgets", is_flag=True, help="Guarded Deployments; preempts; no gangs.")
@click.option("--cut", is_flag=True, help="Cut journals; over-fills are not explained.")
@_number("--warm-up", 60.0, "Growth is judged after so many seconds.")
@_number("--stored", 0, "Pods that are there at the start; 1 of 10 waits, all stay.")
@click.option("--clock", type=FILE, help="libfaketimeMT.so.1: the Musters' clock jumps by hours.")
@_number("--seed", 1, "Of the load and the kills.")
@click.option("--out", type=FILE, default="runs/soak", help="Run directories, logs, samples.csv.")
def soak(
    seconds: float,
    rate: float,
    life: float,
    nodes: int,
    musters: int,
    kill_every: float,
    scheduler: bool,
    preempt: bool,
    budgets: bool,
    cut: bool,
    warm_up: float,
    stored: int,
    clock: Path | None,
    seed: int,
    out: Path,
) -> None:
    """Run a trial and print its verdict."""
    names = tuple(f"muster-{number}" for number in range(musters))
    others = ("default-scheduler",) if scheduler else ()
    gangs_of = () if budgets else names
    plan = Plan(names + others, gangs_of, rate, seconds, life, preempt or budgets, seed)
    base = LOAD_TEST if cut else KubeOptions()
    # Its gangs are Workloads of 1.35.
    options = KubeOptions(
        version=V1_35,
        storage_json=True,
        audit_policy=base.audit_policy,
        api_server_args=(EVENTS_TTL,),
    )
    out.mkdir(parents=True)
    with KubeServers(options) as servers, _history(servers) as history:
        more = ["--cut-journals"] if cut else []
        running = {name: muster(servers, out.absolute(), name, more, clock) for name in names}
        trial = Trial(servers, plan, out.absolute(), running, keeps=not cut)
        asyncio.run(_prepare(servers, nodes))
        if stored:
            trial.is_full = True
            store(servers, stored, nodes, names[0])
        if scheduler:
            servers.start_scheduler()
        if budgets:
            trial.budgets = Budgets()
            servers.start_controller_manager()
            servers.start_kwok()
        for process in running.values():
            process.start()
        try:
            asyncio.run(play(trial, history, kill_every, clock is not None))
            trial.drain(history)
        finally:
            for process in running.values():
                process.terminate()
        audit: list[Any] = [] if cut else servers.audit_events()
    if not _tell(trial, audit, warm_up):
        sys.exit(1)


def _history(servers: KubeServers) -> EtcdHistory:
    return EtcdHistory(servers.at.etcd_url, (PODS_KEY, NODES_KEY, WORKLOADS_KEY, BUDGETS))


async def _prepare(servers: KubeServers, nodes: int) -> None:
    for name, value in CLASSES.items():
        body = {"metadata": {"name": name}, "value": value, "apiVersion": "scheduling.k8s.io/v1"}
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        servers.api.create(path, {**body, "kind": "PriorityClass"}).ok()
    async with Load(servers.kubeconfig) as load:
        await load.create_nodes(nodes, partial(plain_node, zones=ZONES))


def _tell(trial: Trial, audit: Sequence[Any], warm_up_s: float) -> bool:
    """Print the verdict; return whether the run was good."""
    judge, tally = trial.judge, trial.tally
    problems = trial.problems + judge.problems
    rows = {
        "pods created": f"{judge.created.total():,} in {tally.seconds:.0f} s",
        "pods per second": f"{judge.created.total() / max(1.0, tally.seconds):.1f}",
        "binds": ", ".join(f"{name} {count:,}" for name, count in judge.bound.items()),
        "kills, jumps of the clock": f"{trial.kills}, {trial.jumps}",
        "created to bound (s)": quantiles(judge.waits_s, 2),
        "over-committing binds": f"{len(judge.overs):,} of {judge.bound.total():,}",
        "answers": ", ".join(f"{what}: {count:,}" for what, count in sorted(tally.counts.items())),
    }
    if trial.keeps:
        runs = {name: trial.folder / name for name in trial.musters}
        found = price(trial.changes, audit, runs, judge.overs)
        problems += found.problems
        (trial.folder / "races.txt").write_text("\n".join(found.lines()), encoding="utf-8")
        rows |= dict(found.rows())
    if trial.budgets is not None:
        problems += _of_budgets(trial, trial.budgets, rows)
    # A killed process starts again.
    grown = [] if trial.kills else growth(trial.samples, warm_up_s)
    problems += [f"{one.who}: {one.what} grew" for one in grown if not one.is_flat]
    _table(rows, grown, trial)
    for text in problems[:50]:
        console.print(text, style="red")
    console.print(f"{len(problems)} problems" if problems else "all is well")
    return not problems


def _of_budgets(trial: Trial, budgets: Budgets, rows: dict[str, str]) -> list[str]:
    """Add a row about budgets; return evictions that nothing explains."""
    beyond: dict[str, int] = {}
    for name in trial.musters:
        beyond |= known(trial.folder / name)
    unknown = [one for one in budgets.breaches if not beyond.get(one.uid)]
    rows["evictions of guarded pods"] = (
        f"{budgets.evicted}, beyond the budget {len(budgets.breaches)}, of these decided as such "
        f"because no node could do without {len(budgets.breaches) - len(unknown)}"
    )
    return [f"a budget was broken unknowingly: {one}" for one in unknown]


def _table(rows: dict[str, str], grown: Sequence[Growth], trial: Trial) -> None:
    table = Table(show_header=False)
    for what, value in rows.items():
        table.add_row(what, value)
    for one in grown:
        flat = "flat" if one.is_flat else "grew"
        table.add_row(f"{one.who}: {one.what}", f"{one.first:.1f} -> {one.last:.1f} ({flat})")
    for name in trial.musters:
        mine = [one for one in trial.samples if one.who == name][-LAST_SAMPLES:]
        if mine:
            first, last = mine[0], mine[-1]
            text = f"RSS {last.rss_mib:.0f} MiB, {last.fds} fds, {last.cpu_s:.0f} CPU s"
            table.add_row(f"{name} at the end", text)
            share = (last.cpu_s - first.cpu_s) / max(1.0, last.time_s - first.time_s)
            grew = f"{last.run_mib - first.run_mib:+.2f} MiB of run directory"
            table.add_row(f"{name} in the last minute", f"{share:.1%} of a core, {grew}")
    console.print(table)


if __name__ == "__main__":
    soak()
