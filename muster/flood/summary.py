"""What `muster flood` says about a flood, key by key."""

from typing import Annotated

from msgspec import Meta, Struct


def _says(text: str) -> Meta:
    return Meta(description=text)


class Latencies(Struct, kw_only=True):
    """Percentiles by rank, in ms."""

    p50: float
    p90: float
    p99: float
    p99_9: float
    max: float


class Batches(Struct, kw_only=True):
    """Batches of pods that were sent to shards: how many, and pods in each."""

    count: int
    p50: int
    p90: int
    p99: int
    max: int


class Series(Struct, kw_only=True):
    """What happened in each interval since the flood began."""

    interval_ms: int
    created: Annotated[list[int], _says("Pods that were to come.")]
    bound: Annotated[list[int], _says("Pods that were bound.")]
    waiting: Annotated[list[int], _says("Pods that waited at the end of the interval.")]
    batch_pods: Annotated[list[float], _says("Pods in a batch, on average (0: no batch).")]
    shard_pods: Annotated[list[list[int]], _says("Pods that each shard placed.")]
    processors: Annotated[list[float], _says("Processors in use, on average.")]
    api_writes: Annotated[list[int], _says("Writes of the scheduler to the API.")]


class FloodSummary(Struct, kw_only=True):
    """What a flood did to its target. The measured pods are those of steps with collectMetrics."""

    workload: Annotated[str, _says("Name of the workload.")]
    seed: int
    target: Annotated[str, _says("in-process, Kafka, or a kubeconfig.")]
    scheduler: Annotated[str, _says("muster, or the rival.")]
    run: Annotated[str, _says("Folder of the summary, and in-process of the journals.")]
    placements: Annotated[int, _says("Shards of placement.")]
    complete: Annotated[bool, _says("Every barrier was reached.")]
    nodes: Annotated[int, _says("Nodes that existed before the flood began.")]
    pods: Annotated[int, _says("Pods that came.")]
    bound: Annotated[int, _says("Pods that were bound once, with those that are gone.")]
    gone: Annotated[int, _says("Pods that were deleted, evicted, or finished.")]
    waiting: Annotated[int, _says("Pods without a node at the end.")]
    measured: Annotated[int, _says("Measured pods that came.")]
    measured_bound: Annotated[int, _says("Measured pods that were bound.")]
    seconds: Annotated[
        float, _says("From when the first measured pod was to come to the bind of the last.")
    ]
    pods_per_second: Annotated[float, _says("Measured pods bound in a second of these.")]
    latency_ms: Annotated[
        Latencies | None,
        _says(
            "From when a measured pod was to come (not from when it came, so a target that falls "
            "behind hides nothing) to its bind. null: none was bound."
        ),
    ]
    latency_histogram: Annotated[
        str, _says("The same as an HDR histogram of microseconds, as its libraries encode it.")
    ]
    processor_us_per_pod: Annotated[
        float | None, _says("Processor time by bound pod. In-process the cluster's is in it.")
    ]
    api_writes_per_pod: float | None
    batches: Batches | None
    shard_imbalance: Annotated[
        float | None, _says("Pods of the fullest shard by those of an average one.")
    ]
    series: Series
