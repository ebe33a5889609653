"""Makes the summary of a mix from its accounts and its usage."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.mix.accounts import HOUR_MS, Account, SizeAccount, SpreadAccount
from muster.mix.controllers import SAMPLES, Controllers
from muster.mix.mix import Mix
from muster.mix.summary import (
    ClassFigures,
    MixSeries,
    MixSummary,
    Share,
    SizeFigures,
    Spread,
    Times,
)
from muster.mix.usage import GPU, RESOURCES

UNITS = (1_000 * HOUR_MS, (1 << 30) * HOUR_MS, 1_000 * HOUR_MS)
"""Hours of one CPU, GiB or GPU, in amounts times ms."""
CPU = RESOURCES.index("cpu")
DIGITS = 4


@dataclass(frozen=True)
class About:
    """How a mix was played; `real_s` is the time that it took."""

    run: str
    placements: int
    real_s: float
    settings: list[str] = field(default_factory=list)
    config: str = ""


def summarise(mix: Mix, played: Controllers, about: About) -> MixSummary:
    """Return the summary of a mix that was played to its horizon."""
    accounts, usage = played.accounts, played.usage
    horizon_s = mix.horizon_ms / 1000
    lost = [sum(one.lost[place] for one in accounts) for place in range(len(RESOURCES))]
    used = usage.total.used
    return MixSummary(
        mix=mix.name,
        seed=mix.seed,
        run=about.run,
        placements=about.placements,
        settings=about.settings,
        config=about.config,
        nodes=len(played.nodes),
        horizon_s=horizon_s,
        real_s=round(about.real_s, 3),
        speed=round(horizon_s / about.real_s, 1),
        pods=played.pods_created,
        nodes_failed=played.nodes_failed,
        evicted=sum(one.evicted for one in accounts),
        failed=sum(one.failed for one in accounts),
        usage=[
            Share(
                resource=name,
                used=round(share, DIGITS),
                used_hours=round(amount / unit, 1),
                lost=round(gone / amount, DIGITS) if amount else 0.0,
            )
            for name, share, amount, gone, unit in zip(
                RESOURCES, usage.total.shares(), used, lost, UNITS, strict=True
            )
        ],
        fragmentation=round(usage.total.fragmentation(), DIGITS),
        classes=[_class(one, mix.levels) for one in accounts],
        series=_series(mix, played),
    )


def _class(account: Account, levels: Sequence[str]) -> ClassFigures:
    return ClassFigures(
        name=account.name,
        kind=account.kind,
        sizes=[_size(size, one) for size, one in sorted(account.sizes.items())],
        waiting=account.waiting,
        spread=[
            _spread(label, one)
            for label, one in zip(levels, account.spreads, strict=True)
            if one.looks
        ],
        evicted=account.evicted,
        failed=account.failed,
        restarts=account.restarts,
        lost_cpu_hours=round(account.lost[CPU] / UNITS[CPU], 2),
        lost_gpu_hours=round(account.lost[GPU] / UNITS[GPU], 2),
    )


def _size(size: int, account: SizeAccount) -> SizeFigures:
    return SizeFigures(
        size=size,
        came=account.came,
        ended=account.ended,
        wait_s=times(account.waits_ms),
        completion_s=times(account.completions_ms),
    )


def _spread(label: str, account: SpreadAccount) -> Spread:
    return Spread(
        label=label,
        domains=round(account.domains / account.looks, DIGITS),
        fullest=round(account.fullest / account.looks, DIGITS),
    )


def times(found_ms: Sequence[float]) -> Times | None:
    """Return mean and percentiles of times in ms, as seconds."""
    if not found_ms:
        return None
    ordered = sorted(found_ms)
    last = len(ordered) - 1
    p50, p90, p99, most = (
        round(ordered[min(last, len(ordered) * percent // 100)] / 1000, 3)
        for percent in (50, 90, 99, 100)
    )
    mean = round(sum(ordered) / len(ordered) / 1000, 3)
    return Times(count=len(ordered), mean=mean, p50=p50, p90=p90, p99=p99, max=most)


def _series(mix: Mix, played: Controllers) -> MixSeries:
    samples = played.usage.samples
    shares = [[round(one, DIGITS) for one in sample.shares()] for sample in samples]
    return MixSeries(
        interval_s=mix.horizon_ms / 1000 / SAMPLES,
        used={name: [one[place] for one in shares] for place, name in enumerate(RESOURCES)},
        fragmentation=[round(sample.fragmentation(), DIGITS) for sample in samples],
        waiting={
            one.name: [pods[place] for pods in played.waiting]
            for place, one in enumerate(played.accounts)
        },
    )
