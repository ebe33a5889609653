"""What `muster defrag -o json` prints."""

from msgspec import Struct

from muster.defrag.plan import FreedNode, Plan, Stays


class Moved(Struct, kw_only=True):
    """A pod that was evicted, and what its controller made instead: empty if that was not seen."""

    pod: str
    from_node: str
    replacement: str = ""
    node: str = ""


class Applied(Struct, kw_only=True):
    """What was done. `skipped`: places whose moves could not be carried out any more, and why.
    `stopped`: why nothing more was done. `tainted`: nodes that could not be freed of the taint.
    `free`: how many fit now, null if that was not seen.
    """

    moved: list[Moved]
    skipped: dict[str, str]
    stopped: str = ""
    tainted: list[str] = []
    free: int | None = None


class DefragAnswer(Struct, kw_only=True):
    """The plan, and with --apply what was done. `free`: the nodes where one of `wanted` fits now,
    once for each; `places`: where one more fits after these moves. `lost_gpu_ms`, `lost_cpu_ms`:
    what the pods to be moved have used so far, in milliseconds of a GPU and of a core.
    """

    wanted: str
    count: int | None
    domain: str
    free: tuple[str, ...]
    places: tuple[FreedNode, ...]
    stays: tuple[Stays, ...]
    lost_gpu_ms: int
    lost_cpu_ms: int
    applied: Applied | None = None


def answer_of(plan: Plan, wanted: str, count: int | None) -> DefragAnswer:
    """Return the plan with its cost."""
    moves = plan.moves
    return DefragAnswer(
        wanted=wanted,
        count=count,
        domain=plan.domain,
        free=plan.free,
        places=plan.places,
        stays=plan.stays,
        lost_gpu_ms=sum(one.gpu_milli * one.lost_ms for one in moves) // 1_000,
        lost_cpu_ms=sum(one.cpu_milli * one.lost_ms for one in moves) // 1_000,
    )
