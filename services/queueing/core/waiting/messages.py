"""kube-scheduler's words for why pods wait; summed over shards."""

from collections.abc import Iterable, Mapping, Sequence

from services.queueing.core.config import Config
from services.queueing.core.state import Gang, Refusal, Sig
from shared.model.post_filter import FIRST, LAST, NOT_FOUND, NOWHERE, around

WORKLOAD_KEY = 3  # namespace/workload/group, and perhaps a replica; later namespace/group
NO_NODES = "no nodes available to schedule pods"
NOBODY_SAYS = "0/%d nodes are available:"  # extenders left no node, and gave no reason
NEVER = "preemption: not eligible due to preemptionPolicy=Never."
STILL_LEAVING = "preemption: not eligible due to a terminating pod on the nominated node."
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
GATED = "waiting for scheduling gates"
TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
ON_PERMIT = "waiting for minCount pods from a gang to be waiting on permit"


def fit_error(reasons: Mapping[str, int] | Iterable[tuple[str, int]], nodes: int) -> str:
    """`0/N nodes are available: <count> <reason>, ... .`, sorted as strings (FitError.Error).
    A count of 0 is PreFilter's: its message is about the pod, not about nodes.
    """
    if nodes == 0:
        return NO_NODES
    pairs = reasons.items() if isinstance(reasons, Mapping) else reasons
    said = listed(pairs)
    return f"0/{nodes} nodes are available: {said}." if said else NOBODY_SAYS % nodes


def listed(reasons: Iterable[tuple[str, int]]) -> str:
    """Reasons with their counts, sorted as strings."""
    return ", ".join(sorted(f"{count} {text}" if count else text for text, count in reasons))


def gates_message(names: Sequence[str]) -> str:
    """What PreEnqueue says of a pod with gates."""
    return f"{GATED}: [{' '.join(names)}]"


def sum_reasons(refusals: Iterable[Refusal]) -> tuple[dict[str, int], int]:
    """Reasons with their node counts, and the number of nodes, over all shards."""
    total: dict[str, int] = {}
    nodes = 0
    for refusal in refusals:
        nodes += refusal.nodes
        for reason, count in refusal.reasons:
            total[reason] = total.get(reason, 0) + count
    return total, nodes


def parked_message(sig: Sig, config: Config) -> str:
    """The whole message of a signature that every shard refused."""
    reasons, nodes = sum_reasons(sig.refusals.values())
    text = fit_error(reasons, nodes)
    after = _post_filter(sig, config, nodes)
    return f"{text} {after}" if after else text


def _post_filter(sig: Sig, config: Config, nodes: int) -> str:
    """What kube-scheduler's PostFilter adds; nothing while preemption is still to be asked."""
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
        return sig.note  # with the words of the others
    return ", ".join(around(claims, _nobody(sig, nodes)))


def with_claims(sig: Sig, config: Config, text: str) -> str:
    """What preemption said of a gang, among the words of the other plugins at postFilter."""
    return ", ".join(around(_claims(sig, config), text))


def _claims(sig: Sig, config: Config) -> str:
    """Where DynamicResources stands at postFilter for these pods."""
    if sig.scheduler in config.claims_except:
        return NOWHERE
    return LAST if sig.scheduler in config.claims_last else FIRST


def _nobody(sig: Sig, nodes: int) -> str:
    resolvable = sum(refusal.resolvable for refusal in sig.refusals.values())
    counts = ((NO_VICTIMS, resolvable), (NOT_HELPFUL, nodes - resolvable))
    return "preemption: " + fit_error([pair for pair in counts if pair[1] > 0], nodes)


def preempts(sig: Sig, config: Config) -> bool:
    """Whether anything is asked at postFilter for these pods."""
    return config.preemption and sig.scheduler not in config.preemption_except


def may_preempt(sig: Sig, config: Config) -> bool:
    """Whether removing pods of lower priority could make room for this signature."""
    if not preempts(sig, config) or sig.never_preempts:
        return False
    return any(refusal.preemptible for refusal in sig.refusals.values())


def gang_message(gang: Gang) -> str:
    """Why the gang's members are not tried; empty when nobody waits. It stands during a try."""
    if gang.attempt:
        return gang.message
    if gang.committed or not gang.waiting:
        return ""
    if not gang.exists:
        return no_group(gang)
    if gang.waiting + gang.running < gang.min_count:
        return TOO_FEW
    return gang.verdict


def workload_of(key: str) -> str:
    """Namespace and name of the workload that a group is of; empty for a group of its own."""
    names = key.split("/")
    return "/".join(names[:2]) if len(names) >= WORKLOAD_KEY else ""


def no_group(gang: Gang) -> str:
    """The group is not there, or its workload is not: of those that are some group is known."""
    names = gang.key.split("/")
    if len(names) < WORKLOAD_KEY:
        return f'waiting for pods\'s pod group "{names[-1]}" to appear in scheduling queue'
    if not gang.has_workload:
        return f'waiting for pods\'s workload "{names[1]}" to appear in scheduling queue'
    return f'pod group "{names[2]}" doesn\'t exist for a workload "{names[1]}"'


def gated(gang: Gang) -> bool:
    """Whether what was said is why the gang is not tried, or is not yet through; not a verdict."""
    return gang.message not in ("", gang.verdict)


def timed_out(gang: Gang) -> str:
    """The gate's time is over."""
    return f"gang timed out waiting for minCount members ({gang.min_count}) to have a node"
