"""Queueing's options, their defaults and bounds, and the table of work units; nothing else."""

from typing import Any

from msgspec import Struct

from shared.model.options import read_options

URGENT_ROUNDS_MAX = 3  # times the leftovers of one try start over because a shard improved
ASKS_OPEN_MAX = 4_096  # preemptions under way in all
ASKS_KEPT_MIN = 2 * ASKS_OPEN_MAX  # pods' asks kept before those of pods that are over are dropped
ASK_PODS_MAX = 512  # preemptors of one signature that are asked for together
ASK_SIGS_MAX = 8  # signatures that are asked for side by side: they want the same victims
ASK_AGAIN_MS = 2_000  # between asks while possible victims are still being bound
GANGS_OPEN_MAX = 32  # gang attempts under way in all
LANE_MS = 2_000  # how long a gang may have the lane
HEAD_START_MS = 1_000  # how long younger pods wait, at most, for a gang that is being tried
LANE_AFTER_FAILURES = 2  # failed attempts after which a gang asks for the lane
MEMBERS_KEPT_MIN = 64  # of a gang, before those whose story is over are dropped
GANG_RETRY_MS_MIN = 1_000  # between tries of a gang, whatever the backoff is
GANG_ASKS_OPEN_MAX = 32  # gangs for which preemption works at once
GANG_ASK_AGAIN_MS = 30_000  # between asks for a gang for which nobody could go, if nothing improves
GANG_ASK_AGAIN_MS_MIN = 1_000  # else, after the first ask in vain; doubled by each further one
GANG_TOLD_AFTER_MS = 1_000  # members are told what their gang waits for if that lasts so long
WAIT_FEW = 500  # pods; where more wait, messages are looked at twice as often
LOOKS_MAX = 8  # signatures that shards are asked about in one step, without `looks_per_s`
FLUSHES_EVERY_MS = 1_000  # between steps that flush some signatures, with `looks_per_s`
LOOKS_EVERY_MS = 1_000  # between steps that ask shards, with `looks_per_s`
STEP_EVENTS_MAX = 512  # decided in one step
STEP_PODS_MAX = 32_768  # moved in one step, give or take one event
SPREAD_PODS_MIN = 512  # smaller batches are not spread over shards
FLUSH_EVERY_MS = 30_000  # how often pods are looked for that were refused long ago
BACKOFF_WINDOW_MS = 1_000  # pods whose backoff ends within one leave it together, by priority
ATTEMPTS_MAX = 32_000  # refusals counted per pod (int16)

# Work units are microseconds of a shard's time.
UNITS_NEW_SIGNATURE = 60
UNITS_NODES_DIVISOR = 50
UNITS_DISPATCH_MIN = 30


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`max_batch` 0 = unlimited, 1 = one pod per dispatch; `unbound_max` is the least number of
    reserved pods without a bind that stops dispatching (one second of the bind rate if higher).
    So long after a message was made or confirmed, shards look again (`confirm_ms`; 0 = never),
    after half of it where more than `WAIT_FEW` pods wait. With `looks_per_s` they look
    at so many signatures a second, the longest due first, and so many signatures a second are
    flushed after `unschedulable_max_ms`. For pods with these schedulerNames nobody is ever
    ended: `preemption_except`. Pods that these permit plugins of users refuse wait for these kinds
    of events: `wakes`. With these DynamicResources is not at postFilter (`claims_except`), or after
    DefaultPreemption (`claims_last`). `gang_preemption` and `looks_per_s` are on in what `muster`
    runs: journals of older versions do not have them.
    """

    max_batch: int = 0
    credit_units: int = 20_000
    reorder_window_ms: int = 500
    strict_order: bool = False
    backoff_initial_ms: int = 1_000
    backoff_max_ms: int = 10_000
    unschedulable_max_ms: int = 300_000
    unbound_max: int = 32_768
    preemption: bool = True
    gang_preemption: bool = False
    preemption_except: tuple[str, ...] = ()
    claims_except: tuple[str, ...] = ()
    claims_last: tuple[str, ...] = ()
    confirm_ms: int = 0
    looks_per_s: int = 0
    wakes: dict[str, tuple[str, ...]] = {}


LEAST = {"credit_units": 1, "unschedulable_max_ms": 1, "unbound_max": 1}


def parse_config(options: dict[str, Any]) -> Config:
    """Raises ValueError naming the option and the rule it breaks."""
    for name in options:
        if name not in Config.__struct_fields__:
            raise ValueError(f"queueing.{name}: unknown option")
    config = read_options("queueing", options, Config)
    for name in Config.__struct_fields__:
        least = LEAST.get(name, 0)
        value = getattr(config, name)
        if isinstance(value, int) and value < least:
            raise ValueError(f"queueing.{name}: must be at least {least}")
    return config


def backoff_ms(config: Config, refusals: int) -> int:
    """kube-scheduler's backoff: initial * 2^(n-1), at most max; 0 for pods never refused."""
    if refusals <= 0 or config.backoff_max_ms == 0:
        return 0
    return min(config.backoff_initial_ms << min(refusals - 1, 30), config.backoff_max_ms)


def backoff_end_ms(config: Config, failed_ms: int, failures: int) -> int:
    """When it is over: with the whole second in which it ends (KEP-5142, alignToWindow)."""
    wait_ms = backoff_ms(config, failures)
    if not wait_ms:
        return failed_ms
    return ((failed_ms + wait_ms) // BACKOFF_WINDOW_MS + 1) * BACKOFF_WINDOW_MS
