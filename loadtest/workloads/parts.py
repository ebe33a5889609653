"""Shared parts of scheduler_perf's workloads: sizes and common pods."""

from loadtest.workloads.ops import MIB
from shared.model.objects import CPU, MEMORY, PodSpec, Requirement, Selector

NODES = 5_000
ZONES = ("moon-1", "moon-2", "moon-3")
BOTH = ("sched-0", "sched-1")
BAR = "foo.com/bar"


def spec_of(cpu_milli: int = 100, **rules: object) -> PodSpec:
    """Return a spec with 500Mi and these rules."""
    memory_bytes = 500 * MIB
    return PodSpec(
        requests=((CPU, cpu_milli), (MEMORY, memory_bytes)),
        nonzero_cpu_milli=cpu_milli,
        nonzero_memory_bytes=memory_bytes,
        **rules,  # type: ignore[arg-type]
    )


PLAIN = spec_of()


def color(value: str) -> Selector:
    """Return a selector of pods of this colour."""
    return (Requirement("color", "In", (value,)),)


def labels(value: str) -> tuple[tuple[str, str], ...]:
    """Return the labels of a pod of this colour."""
    return (("color", value),)
