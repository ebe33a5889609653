"""The answers to kube-scheduler's questions, from a view of the cluster. No I/O."""

import numpy as np
from msgspec import Raw

from muster.extender.view import ClusterView
from muster.extender.wire import (
    SCORE_MAX,
    ExtenderArgs,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    UnreadablePod,
    named_nodes,
    pod_in,
)
from shared.kubernetes.objects.structs import RawPod
from shared.scheduling.cycle.report import NodeReport, refused_nodes

UNKNOWN_NODE = "muster's watch does not show this node"


def filter_nodes(view: ClusterView, args: ExtenderArgs) -> ExtenderFilterResult:
    """Return the nodes that pass all filters of the pod's profile, and the reasons of the others. A
    pod that cannot be judged is an `Error`. Raises Malformed.
    """
    asked = named_nodes(args)
    try:
        sig = view.signature(pod_in(args.Pod))
    except UnreadablePod as error:
        return ExtenderFilterResult(Error=str(error))
    refused = refused_nodes(view.table, sig)
    result = ExtenderFilterResult()
    kept: dict[str, Raw | None] = {}
    for name, node in asked.items():
        row = view.table.row_named(name)
        report = None if row is None else refused.get(row)
        if row is None:
            result.FailedAndUnresolvableNodes[name] = UNKNOWN_NODE
        elif report is None:
            kept[name] = node
        elif report.resolvable:
            result.FailedNodes[name] = _reason(report)
        else:
            result.FailedAndUnresolvableNodes[name] = _reason(report)
    if args.NodeNames is not None:
        result.NodeNames = list(kept)
    else:
        result.Nodes = {"items": [node for node in kept.values() if node is not None]}
    return result


def _reason(report: NodeReport) -> str:
    return ", ".join(report.messages)


def prioritize(view: ClusterView, args: ExtenderArgs) -> list[HostPriority]:
    """Return the scores of nodes: their totals among the nodes in question, stretched so that the
    worst gets 0 and the best SCORE_MAX. Nodes that do not fit, or are unknown, get 0. Raises
    Malformed, UnreadablePod.
    """
    asked = list(named_nodes(args))
    sig = view.signature(pod_in(args.Pod))
    rows = {name: row for name in asked if (row := view.table.row_named(name)) is not None}
    totals = view.placement.kernel.totals_among(
        view.table, sig, np.array(list(rows.values()), np.int64)
    )
    found = dict(zip(rows, totals.tolist(), strict=True))
    fitting = [total for total in found.values() if total >= 0]
    worst, best = min(fitting, default=0), max(fitting, default=0)
    return [HostPriority(name, _score(found.get(name, -1), worst, best)) for name in asked]


def _score(total: int, worst: int, best: int) -> int:
    if total < 0:
        return 0
    return SCORE_MAX if worst == best else (total - worst) * SCORE_MAX // (best - worst)


def preempt(view: ClusterView, args: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
    """Return the nodes, with the victims as given, where the pod passes all filters once they have
    left. Raises Malformed, UnreadablePod.
    """
    sig = view.signature(pod_in(args.Pod))
    return ExtenderPreemptionResult(
        {
            name: one
            for name, one in args.victims().items()
            if (row := view.table.row_named(name)) is not None
            and view.fits_without(sig, row, [pod.UID for pod in one.Pods or ()])
        }
    )


def why_not(view: ClusterView, pod: RawPod, node: str) -> str:
    """Return why a pod does not fit a node now, empty if it does. Raises UnreadablePod."""
    row = view.table.row_named(node)
    if row is None:
        return UNKNOWN_NODE
    report = refused_nodes(view.table, view.signature(pod)).get(row)
    return "" if report is None else _reason(report)
