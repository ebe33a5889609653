"""Pods that arrive at a steady rate and end after a while: singles of several sizes, gangs, and
pods with spread constraints. The seed decides; pods that the server refuses are not created again.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from loadtest.cluster.load import PODS, ZONE, Load
from tests.support.kube_objects import pod

WORKLOADS = "/apis/scheduling.k8s.io/v1alpha1/namespaces/default/workloads"
CLASSES = {"low": 10, "high": 1_000}
AT_ONCE = 16
LATE_S = 1.0
CPUS = ("250m", "500m", "1", "2")
GANG, SPREAD, HIGH = 0.02, 0.1, 0.1
"""The share of each kind among pods or units."""


@dataclass(frozen=True)
class Plan:
    """`gangs_of` are the schedulers that get gangs as well."""

    schedulers: tuple[str, ...]
    gangs_of: tuple[str, ...]
    per_s: float
    seconds: float
    life_s: float
    preempts: bool
    seed: int


@dataclass(frozen=True)
class Unit:
    """A pod, or the pods of a gang with their Workload."""

    pods: dict[str, bytes]
    life_s: float
    workload: dict[str, Any] | None = None


@dataclass
class Tally:
    """The server's answers to our requests."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def units(plan: Plan) -> Iterator[Unit]:
    """Yield units without end."""
    draw, number = random.Random(plan.seed), 0
    while True:
        number += 1
        scheduler = plan.schedulers[number % len(plan.schedulers)]
        life_s = plan.life_s * draw.uniform(0.5, 1.5)
        spec: dict[str, Any] = {
            "schedulerName": scheduler,
            "cpu": draw.choice(CPUS),
            "terminationGracePeriodSeconds": 0,
        }
        if plan.preempts:
            spec["priorityClassName"] = "high" if draw.random() < HIGH else "low"
        if scheduler in plan.gangs_of and draw.random() < GANG:
            yield _gang(f"gang-{number}", draw.randint(2, 6), spec, life_s)
            continue
        labels = {"app": f"app-{number % 20}"}
        if draw.random() < SPREAD:
            spec["topologySpreadConstraints"] = [_spread(labels)]
        yield Unit(_bodies([f"pod-{number}"], labels, spec), life_s)


def _spread(labels: dict[str, str]) -> dict[str, Any]:
    return {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }


def _gang(name: str, size: int, spec: dict[str, Any], life_s: float) -> Unit:
    spec = {**spec, "cpu": "500m", "workloadRef": {"name": name, "podGroup": "all"}}
    workload = {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"podGroups": [{"name": "all", "policy": {"gang": {"minCount": size}}}]},
    }
    names = [f"{name}-{number}" for number in range(size)]
    return Unit(_bodies(names, {"app": "gang"}, spec), life_s, workload)


def _bodies(names: list[str], labels: dict[str, str], spec: dict[str, Any]) -> dict[str, bytes]:
    return {name: json.dumps(pod(name, labels=labels, **spec)).encode() for name in names}


async def come_and_go(load: Load, plan: Plan, tally: Tally) -> None:
    """Run for the plan's seconds. Pods whose lifetime has not ended stay."""
    loop, over, gate = asyncio.get_running_loop(), asyncio.Event(), asyncio.Semaphore(AT_ONCE)
    began_s = due_s = loop.time()
    if not plan.per_s:
        await asyncio.sleep(plan.seconds)
        return
    async with asyncio.TaskGroup() as group:
        for unit in units(plan):
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            tally.seconds = loop.time() - began_s
            if tally.seconds > plan.seconds:
                break
            async with gate:
                group.create_task(_live(load, unit, tally, over, gate))
            # What is late by more than this is not made up for.
            due_s = max(due_s + len(unit.pods) / plan.per_s, loop.time() - LATE_S)
        over.set()


async def _live(
    load: Load, unit: Unit, tally: Tally, over: asyncio.Event, gate: asyncio.Semaphore
) -> None:
    async with gate:
        if unit.workload is not None:
            await ask(load, tally, "POST", WORKLOADS, json.dumps(unit.workload).encode())
        for body in unit.pods.values():
            await ask(load, tally, "POST", PODS, body)
    try:
        await asyncio.wait_for(over.wait(), unit.life_s)
        return
    except TimeoutError:
        pass
    async with gate:
        for name in unit.pods:
            await ask(load, tally, "DELETE", f"{PODS}/{name}")
        if unit.workload is not None:
            await ask(load, tally, "DELETE", f"{WORKLOADS}/{unit.workload['metadata']['name']}")


async def ask(load: Load, tally: Tally, method: str, path: str, body: bytes | None = None) -> None:
    """Send one request. A victim may be deleted before we delete it, so no answer is an
    error here.
    """
    try:
        answer = await load.client.request(method, path, body)
        status = str(answer.status)
    except (ConnectionError, TimeoutError):
        status = "no answer"
    tally.counts[f"{method} {'pod' if path.startswith(PODS) else 'workload'} {status}"] += 1
