"""Messages of waiting pods in kube-scheduler's words, summed over shards."""

from collections.abc import Iterable, Mapping, Sequence

from services.queueing.core.config import Config
from services.queueing.core.state import Gang, Refusal, Sig
from shared.events.permit import GangReleased
from shared.model.preemption.post_filter import FIRST, LAST, NOT_FOUND, NOWHERE, SILENT, around
from shared.model.release import V1_37

WORKLOAD_KEY = 3  # namespace/workload/group, and perhaps a replica; later namespace/group
NO_NODES = "no nodes available to schedule pods"
NO_REASONS = "0/%d nodes are available:"  # extenders left no node, and gave no reason
NEVER = "preemption: not eligible due to preemptionPolicy=Never."
STILL_LEAVING = "preemption: not eligible due to a terminating pod on the nominated node."
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
GATED = "waiting for scheduling gates"
TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
GROWS_LATER = "members above minCount wait for gangs that lack theirs"
ON_PERMIT = "waiting for minCount pods from a gang to be waiting on permit"


def fit_error(reasons: Mapping[str, int] | Iterable[tuple[str, int]], nodes: int) -> str:
    """Return `0/N nodes are available: <count> <reason>, ... .`, sorted as strings
    (FitError.Error). A count of 0 is PreFilter's: its message is about the pod, not about nodes.
    """
    if nodes == 0:
        return NO_NODES
    pairs = reasons.items() if isinstance(reasons, Mapping) else reasons
    counts = sorted_counts(pairs)
    return f"0/{nodes} nodes are available: {counts}." if counts else NO_REASONS % nodes


def sorted_counts(reasons: Iterable[tuple[str, int]]) -> str:
    """Return reasons with their counts, sorted as strings."""
    return ", ".join(sorted(f"{count} {text}" if count else text for text, count in reasons))


def gates_message(names: Sequence[str]) -> str:
    """Return PreEnqueue's message for a pod with gates."""
    return f"{GATED}: [{' '.join(names)}]"


def sum_reasons(refusals: Iterable[Refusal]) -> tuple[dict[str, int], int]:
    """Return the reasons with node counts and the number of nodes, over all shards."""
    total: dict[str, int] = {}
    nodes = 0
    for refusal in refusals:
        nodes += refusal.nodes
        for reason, count in refusal.reasons:
            total[reason] = total.get(reason, 0) + count
    return total, nodes


def parked_message(sig: Sig, config: Config, found: str = "") -> str:
    """Return the whole message of a signature that every shard refused. `found`: the text about
    the victims that leave for this pod.
    """
    reasons, nodes = sum_reasons(sig.refusals.values())
    text = fit_error(reasons, nodes)
    after = found or _post_filter(sig, config, nodes)
    return f"{text} {after}" if after else text


def _post_filter(sig: Sig, config: Config, nodes: int) -> str:
    """Return the text that kube-scheduler's PostFilter adds; nothing while preemption is still to
    be asked.
    """
    if nodes == 0:
        return ""
    claims, asks = _claims(sig, config), may_preempt(sig, config)
    if claims and not asks and any(refusal.rejected for refusal in sig.refusals.values()):
        return NOT_FOUND
    if not preempts(sig, config):
        return ", ".join(around(claims))
    if sig.never_preempts:
        return ", ".join(around(claims, NEVER))
    if sig.note or asks:
        return sig.note  # includes the other plugins' texts
    return ", ".join(around(claims, _no_victims_message(sig, nodes)))


def with_claims(sig: Sig, config: Config, text: str) -> str:
    """Return preemption's text about a gang, in place among the texts of the other PostFilter
    plugins.
    """
    return ", ".join(around(_claims(sig, config), text))


def _claims(sig: Sig, config: Config) -> str:
    """Return DynamicResources' place at PostFilter for these pods."""
    if sig.scheduler in config.claims_except:
        return NOWHERE
    if config.compatibility >= V1_37:
        return SILENT
    return LAST if sig.scheduler in config.claims_last else FIRST


def _no_victims_message(sig: Sig, nodes: int) -> str:
    resolvable = sum(refusal.resolvable for refusal in sig.refusals.values())
    counts = ((NO_VICTIMS, resolvable), (NOT_HELPFUL, nodes - resolvable))
    return "preemption: " + fit_error([pair for pair in counts if pair[1] > 0], nodes)


def preempts(sig: Sig, config: Config) -> bool:
    """Return whether a PostFilter plugin runs for these pods."""
    return config.preemption and sig.scheduler not in config.preemption_except


def may_preempt(sig: Sig, config: Config) -> bool:
    """Return whether preemption could make room for this signature."""
    if not preempts(sig, config) or sig.never_preempts:
        return False
    return any(refusal.preemptible for refusal in sig.refusals.values())


def gang_message(gang: Gang) -> str:
    """Return why the gang's members are not tried; empty if none waits. It stays during a try."""
    if gang.attempt:
        return gang.message
    if gang.root or not gang.waiting:
        return ""
    if gang.committed:
        return f"gang {gang.key}: {GROWS_LATER}"
    if not gang.exists:
        return no_group(gang)
    if gang.waiting + gang.running < (1 if gang.shrunk else gang.min_count):
        return TOO_FEW
    return gang.lacking or gang.outcome


def group_condition(gang: Gang, config: Config) -> str | None:
    """Return what the condition of the gang's PodGroup is to say: nothing before its first try,
    empty once it was scheduled. 1.36 does not say there that members make no group.
    """
    if gang.committed or gang.started:
        return ""
    if gang.is_error and config.compatibility < V1_37:
        return gang.shown
    return gang.outcome or gang.shown


def is_pod_group(gang: Gang) -> bool:
    """Return whether the gang is a PodGroup of scheduling.k8s.io, no part of a workload."""
    return 0 < gang.key.count("/") < WORKLOAD_KEY - 1 and "@" not in gang.key


def has_condition(gang: Gang) -> bool:
    """Return whether the gang's object says whether it was scheduled."""
    return is_pod_group(gang) or gang.key.endswith("@volcano")


def workload_of(key: str) -> str:
    """Return namespace and name of a group's workload; empty for a group without one."""
    names = key.split("/")
    return "/".join(names[:2]) if len(names) >= WORKLOAD_KEY else ""


def no_group(gang: Gang) -> str:
    """Return the message for a missing group or workload; a workload is known by its groups."""
    names = gang.key.split("/")
    if len(names) < WORKLOAD_KEY:
        return f'waiting for pods\'s pod group "{names[-1]}" to appear in scheduling queue'
    if not gang.has_workload:
        return f'waiting for pods\'s workload "{names[1]}" to appear in scheduling queue'
    return f'pod group "{names[2]}" doesn\'t exist for a workload "{names[1]}"'


def is_not_tried_message(gang: Gang) -> bool:
    """Return whether the message says why the gang is not tried or not finished yet; a verdict does
    not.
    """
    return gang.message not in ("", gang.outcome)


def members_message(gang: Gang, event: GangReleased) -> str:
    """Return how many members have a node and why the next one has none, after a try without room.
    If no member has one and all have one signature, kube-scheduler's message is true of each.
    """
    if gang.tree:
        text = f"{event.placed} of {event.needed} groups have nodes"
        counts = sorted_counts(event.reasons)
        return f"gang {gang.key}: {text}; {counts}." if counts else f"gang {gang.key}: {text}."
    least = max(gang.min_count, event.needed)
    missing = event.needed - event.placed
    is_none = missing == least and len(gang.sigs) == 1 and gang.topology is None
    if not event.needed or not event.nodes or is_none:
        return fit_error(event.reasons, event.nodes)
    place = f"a node in {event.domain}" if event.domain else "a node"
    text = f"{least - missing} of {least} members have {place}; {missing} more"
    counts = sorted_counts(event.reasons)
    return f"gang {gang.key}: {text}: {counts}." if counts else f"gang {gang.key}: {text}."


def timed_out_message(gang: Gang) -> str:
    """Return the message after a permit timeout, with what the last try was short of."""
    start = f"gang {gang.key} timed out after {gang.timeout_ms / 1000:g} s"
    if not gang.shortage:
        if gang.tree:
            return f"{start} waiting for its groups to have nodes."
        return f"{start} waiting for {gang.min_count} members to have a node."
    return f"{start}: {gang.shortage.removeprefix(f'gang {gang.key}: ')}"
