"""Queueing's options with their bounds, and the table of work units."""

from msgspec import field

from shared.model.options import Natural, Positive
from shared.model.release import ReleaseOptions

URGENT_ROUNDS_MAX = 3  # rounds of leftovers in one try after improvements
ASKS_OPEN_MAX = 4_096  # open preemptions in all
ASKS_KEPT_MIN = 2 * ASKS_OPEN_MAX  # records kept before those of finished pods are dropped
ASK_PODS_MAX = 512  # preemptors of one signature in one ask
ASK_SIGS_MAX = 8  # signatures in parallel: they want the same victims
ASK_AGAIN_MS = 2_000  # between asks while possible victims are being bound
GANGS_OPEN_MAX = 32  # open gang attempts in all
LANE_MS = 2_000  # longest time with the lane
HEAD_START_MS = 1_000  # how long younger pods wait at most for a gang being tried
GROWTH_MS = 1_000  # after a gang's failed try, before members above minCount wait for the next
LANE_AFTER_FAILURES = 2  # failed attempts before a gang gets the lane
MEMBERS_KEPT_MIN = 64  # of a gang, before finished ones are dropped
GANG_RETRY_MS_MIN = 1_000  # between tries of a gang, whatever the backoff
GANG_ASKS_OPEN_MAX = 32  # gangs with an open preemption
VAIN_ASK_AGAIN_MS = 30_000  # at most between asks whose answer depends on what queues use
GANG_ASK_AGAIN_MS = 30_000  # between asks without candidates, if nothing improves
GANG_ASK_AGAIN_MS_MIN = 1_000  # after the first failed ask; doubled by each further one
PROVISIONING_RETRY_MS = 60_000  # after a failed request for nodes; doubled by each further one
PROVISIONING_RETRY_MS_MAX = 1_800_000
PROVISIONING_UNSEEN_MS = 30_000  # before a request that the watch does not show is sent once more
GANG_MESSAGE_AFTER_MS = 1_000  # members get their gang's message if it lasts so long
WAIT_FEW = 500  # pods; with more, messages are refreshed twice as often
LOOKS_MAX = 8  # signatures refreshed in one step, without `looks_per_s`
FLUSHES_EVERY_MS = 1_000  # between steps that flush signatures, with `looks_per_s`
LOOKS_EVERY_MS = 1_000  # between steps that refresh, with `looks_per_s`
STEP_EVENTS_MAX = 512  # decided in one step
STEP_PODS_MAX = 32_768  # moved in one step, plus at most one event
SPREAD_PODS_MIN = 64  # smaller batches are not spread over shards
FLUSH_EVERY_MS = 30_000  # period of the unschedulable timeout's checks
BACKOFF_WINDOW_MS = 1_000  # pods whose backoff ends within one leave it together, by priority
ATTEMPTS_MAX = 32_000  # refusals counted per pod (int16)

# Work units are microseconds of a shard's time.
UNITS_NEW_SIGNATURE = 60
UNITS_NODES_DIVISOR = 50
UNITS_DISPATCH_MIN = 30


class Config(ReleaseOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Queueing's options.

    `max_batch`: 0 is unlimited, 1 is one pod per dispatch. `unbound_max`: the least number of
    reserved pods without a bind that stops dispatching (one second of the bind rate if higher).
    `confirm_ms`: this long after a message was made or confirmed, shards check it again (0: never),
    or after half of it if more than `WAIT_FEW` pods wait. `looks_per_s`: how many signatures are
    refreshed a second, the longest due first, and how many are flushed a second after
    `unschedulable_max_ms`. `group_conditions`: PodGroups say whether they were scheduled.
    `preemption_except`: schedulerNames whose pods never preempt. `wakes`:
    the kinds of events that pods rejected by each Permit plugin wait for. `claims_except`:
    schedulerNames without DynamicResources at PostFilter; `claims_last`: with it after
    DefaultPreemption. `gang_preemption` and `looks_per_s` are on in `muster`; older journals do not
    have them.
    """

    max_batch: Natural = 0
    credit_units: Positive = 20_000
    reorder_window_ms: Natural = 500
    strict_order: bool = False
    backoff_initial_ms: Natural = 1_000
    backoff_max_ms: Natural = 10_000
    unschedulable_max_ms: Positive = 300_000
    unbound_max: Positive = 32_768
    preemption: bool = True
    gang_preemption: bool = False
    preemption_except: tuple[str, ...] = ()
    claims_except: tuple[str, ...] = ()
    claims_last: tuple[str, ...] = ()
    confirm_ms: Natural = 0
    looks_per_s: Natural = 0
    group_conditions: bool = False
    wakes: dict[str, tuple[str, ...]] = field(default_factory=dict)


def backoff_ms(config: Config, refusals: int) -> int:
    """Return kube-scheduler's backoff, ms: initial * 2^(n-1), at most max; 0 for pods never
    refused.
    """
    if refusals <= 0 or config.backoff_max_ms == 0:
        return 0
    return min(config.backoff_initial_ms << min(refusals - 1, 30), config.backoff_max_ms)


def backoff_end_ms(config: Config, failed_ms: int, failures: int) -> int:
    """Return when the backoff ends: with the whole second in which it ends (KEP-5142,
    alignToWindow).
    """
    wait_ms = backoff_ms(config, failures)
    if not wait_ms:
        return failed_ms
    return ((failed_ms + wait_ms) // BACKOFF_WINDOW_MS + 1) * BACKOFF_WINDOW_MS
