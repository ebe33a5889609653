"""What `muster run` and `summary.json` say about a run, key by key."""

from typing import Annotated

from msgspec import Meta, Struct

from shared.scheduling.api.custom.failures import Failure


class WaitingReason(Struct):
    """A reason why pods wait: how many have it, for how many it is the reason of most nodes, and
    the names of the first of these.
    """

    reason: str
    pods: int
    mainly: int
    names: list[str]


class Allocation(Struct):
    """What pods with a node request, and what all nodes have."""

    allocated: int
    total: int


class Percentiles(Struct):
    """Percentiles by rank."""

    p50: int
    p90: int
    p99: int
    max: int


def _says(text: str) -> Meta:
    return Meta(description=text)


COMPLETE = _says(
    "All pods of the world have arrived, and no waiting pod fits anywhere. False if the time "
    "limit or a signal ended the run before that."
)
CONFIRMED = _says(
    "A check by brute force, which shares no code with the scheduler, found no problem: no node "
    "has room for a waiting pod, and each message names the true reasons. False also after a "
    "signal: then nothing was checked."
)
ANOTHER_PACKING = _says(
    "Waiting gangs for which some orders of placing their members find room and others do not. "
    "They are no problem: no scheduler promises to try all orders."
)
VOID_RECORDS = _says(
    "Records written by an owner that another had replaced already. They count for nothing. "
    "Normal after a process was paused or cut off."
)
DECIDING = _says(
    "World time in which at least one pod waited to be bound, or to be told for the first time "
    "why it waits."
)


class RunSummary(Struct, kw_only=True):
    """What `muster run WORLD` has done. Counts of pods are those at the end of the run."""

    world: Annotated[str, _says("Name of the world.")]
    run: Annotated[str, _says("Folder of the run.")]
    placements: Annotated[int, _says("Shards of placement.")]
    complete: Annotated[bool, COMPLETE]
    interrupted: Annotated[bool, _says("Ctrl-C or SIGTERM ended the run.")]
    confirmed: Annotated[bool, CONFIRMED]
    problems: Annotated[list[str], _says("The first problems that the check found.")]
    problems_count: int
    plugin_failures: Annotated[list[Failure], _says("Failures of users' plugins.")]
    nodes: int
    pods: Annotated[int, _says("Pods that were seen, with those that are gone.")]
    bound: Annotated[int, _says("Pods with a node.")]
    ever_bound: Annotated[int, _says("Pods that were bound once, with those that are gone.")]
    waiting: Annotated[int, _says("Pods without a node.")]
    gone: Annotated[int, _says("Pods that were evicted, finished or deleted.")]
    waiting_by_reason: Annotated[
        dict[str, int], _says("Waiting pods by all reasons of their message, most pods first.")
    ]
    waiting_reasons: Annotated[
        list[WaitingReason], _says("All reasons of waiting pods, the most frequent first.")
    ]
    cpu_milli: Annotated[Allocation, _says("In thousandths of a CPU.")]
    memory_bytes: Allocation
    gpu_milli: Annotated[Allocation, _says("In thousandths of a GPU.")]
    gangs: int
    gangs_committed: Annotated[int, _says("Gangs that got nodes for minCount members.")]
    gangs_timed_out: Annotated[int, _says("Gangs that waited on permit for too long.")]
    gangs_that_another_packing_would_fit: Annotated[int, ANOTHER_PACKING]
    preemptions: Annotated[int, _says("How often preemption chose victims for a pod.")]
    victims: Annotated[int, _says("Pods chosen for eviction.")]
    victims_beyond_budget: Annotated[
        int, _says("Victims that their PodDisruptionBudgets did not allow.")
    ]
    batches: Annotated[int, _says("Batches of pods that were sent to shards.")]
    batch_size: Annotated[Percentiles | None, _says("Pods in each batch (null: no batch).")]
    refusals: Annotated[int, _says("How often a shard found no node for a pod.")]
    virtual_time: Annotated[
        bool, _says("The world had a clock of its own, which begins at 2023-11-14T22:13:20Z.")
    ]
    world_seconds: Annotated[float, _says("Time that passed in the world.")]
    real_seconds: Annotated[float, _says("Time that the run took.")]
    seconds: Annotated[float, _says("World time from the first pod to the last bind.")]
    deciding_seconds: Annotated[float, DECIDING]
    pods_per_second: Annotated[
        int, _says("Pods that were bound, or told why they wait, in a second of deciding_seconds.")
    ]
    busiest_second: Annotated[int, _says("The most pods bound within one second of world time.")]
    latency_ms: Annotated[
        Percentiles | None, _says("World time from a pod's arrival to its bind (null: no bind).")
    ]
    records: Annotated[int, _says("Records in all journals.")]
    void_records: Annotated[int, VOID_RECORDS]
    journal_bytes: Annotated[int, _says("Size of all journals' records.")]
