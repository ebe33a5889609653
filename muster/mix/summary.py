"""What `muster simulate --workloads` says about a mix, key by key."""

from typing import Annotated

from msgspec import Meta, Struct


def _says(text: str) -> Meta:
    return Meta(description=text)


class Times(Struct, kw_only=True):
    """Seconds, percentiles by rank; `count` is how many there are."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


class Spread(Struct, kw_only=True):
    """Over how many domains of a label a job spreads: gangs when they start, Deployments each
    hour.
    """

    label: str
    domains: Annotated[float, _says("Domains with pods of one job, on average.")]
    fullest: Annotated[float, _says("Share of its pods in its fullest domain, on average.")]


class SizeFigures(Struct, kw_only=True):
    """Jobs of one size: gangs, arrays, or single replicas of Deployments."""

    size: Annotated[int, _says("Pods of a job.")]
    came: int
    ended: int
    wait_s: Annotated[
        Times | None,
        _says(
            "From when a gang, a pod of an array or a replica came to its first node. null: none "
            "got one. Those that still wait at the end are not in it."
        ),
    ]
    completion_s: Annotated[
        Times | None,
        _says(
            "From when a job came to the end of its last pod, with restarts. null: none has ended."
        ),
    ]


class ClassFigures(Struct, kw_only=True):
    """One class of workloads."""

    name: str
    kind: Annotated[str, _says("training, batch or inference.")]
    sizes: list[SizeFigures]
    waiting: Annotated[int, _says("Pods without a node at the end.")]
    spread: list[Spread]
    evicted: Annotated[int, _says("Pods that preemption evicted.")]
    failed: Annotated[int, _says("Pods whose node failed.")]
    restarts: Annotated[int, _says("Gangs that started anew because a member was lost.")]
    lost_cpu_hours: Annotated[float, _says("What was requested for work that was lost.")]
    lost_gpu_hours: float


class Share(Struct, kw_only=True):
    """One resource: what running pods requested of what the nodes that were there had."""

    resource: str
    used: Annotated[float, _says("Share, on average over the whole time.")]
    used_hours: Annotated[float, _says("Hours of whole CPUs or GPUs; for memory, of GiB.")]
    lost: Annotated[float, _says("Share of the used hours whose work was lost.")]


class MixSeries(Struct, kw_only=True):
    """Averages over intervals, and pods that waited at their ends."""

    interval_s: float
    used: Annotated[dict[str, list[float]], _says("Share of each resource.")]
    fragmentation: list[float]
    waiting: Annotated[dict[str, list[int]], _says("Pods without a node of each class.")]


class MixSummary(Struct, kw_only=True):
    """What became of a mix of workloads on virtual time."""

    mix: Annotated[str, _says("Name of the mix.")]
    seed: int
    run: Annotated[str, _says("Folder of the summary and the journals.")]
    placements: Annotated[int, _says("Shards of placement.")]
    settings: Annotated[list[str], _says("What --set said.")]
    config: Annotated[str, _says("The file of --config; empty without one.")]
    nodes: int
    horizon_s: Annotated[float, _says("Time that passed in the cluster.")]
    real_s: Annotated[float, _says("Time that playing it took.")]
    speed: Annotated[float, _says("The first by the second.")]
    pods: Annotated[int, _says("Pods that were created, with replacements.")]
    nodes_failed: int
    evicted: Annotated[int, _says("Pods that preemption evicted.")]
    failed: Annotated[int, _says("Pods whose node failed.")]
    usage: list[Share]
    fragmentation: Annotated[
        float,
        _says(
            "Share of free GPUs that lie on nodes where others are used, on average over the time. "
            "A pod that needs a whole node cannot use them."
        ),
    ]
    classes: list[ClassFigures]
    series: MixSeries
