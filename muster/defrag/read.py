"""Reads what a plan starts from: a case of objects, or the states of a run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from muster.defrag.cluster import Cluster, RunningPod
from muster.defrag.movable import Object, controller_of, why_it_stays
from muster.explain.case_shard import CaseShard
from services.binding.core.pod_table import DEAD, NAMED
from services.binding.core.state import BindingState
from services.ingest.core.state import IngestState
from services.placement.core.books.ledger import UNSTARTED_MS
from services.placement.core.core import PlacementCore
from services.placement.core.state import PlacementState
from shared.events.ingest import SignatureDefined
from shared.kubernetes.objects.errors import WorldError
from shared.model.ids import GangId, PodId, SignatureId
from shared.model.objects import GPU, PodSpec
from shared.model.profile import Configuration
from shared.model.release import DEFAULT_OPTIONS, ReleaseOptions
from shared.worlds.arrivals import uid_of
from shared.worlds.case import Case, Placed, case_of

WANTED_NAME = "muster-defrag"


def amounts_pod(words: str) -> dict[str, Any]:
    """Return a pod that requests `nvidia.com/gpu=8,cpu=32,...` and tolerates the taints that nodes
    have for these resources (as the admission plugin ExtendedResourceToleration adds them). Raises
    WorldError.
    """
    amounts: dict[str, str] = {}
    for word in words.split(","):
        name, equals, amount = word.strip().partition("=")
        if not (name and equals and amount):
            rule = "must be RESOURCE=AMOUNT,... or pod/[NAMESPACE/]NAME"
            raise WorldError(f"--for {words}", "", rule)
        amounts[name] = amount
    special = [{"key": name, "operator": "Exists"} for name in amounts if "/" in name]
    resources = {"requests": amounts, "limits": amounts}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": WANTED_NAME},
        "spec": {"containers": [{"name": "c", "resources": resources}], "tolerations": special},
    }
    spec_of(words, pod)
    return pod


def spec_of(words: str, pod: Object) -> PodSpec:
    """Return the spec of a pod that `words` ask for. Raises WorldError."""
    return case_of(f"--for {words}", {"pods": [pod]}).asked[0].spec


def most_gpus(gpus: Iterable[int]) -> str:
    """Return what should fit by default: all GPUs of the node that has most. Raises WorldError."""
    most = max(gpus, default=0)
    if not most:
        raise WorldError("--for", "", f"is required: no node has {GPU}")
    return f"{GPU}={most}"


def without_unreadable(
    objects: Sequence[Object], release: ReleaseOptions = DEFAULT_OPTIONS
) -> tuple[list[Object], dict[str, str]]:
    """Return the objects without pods that cannot be read, and without the nodes and all other pods
    of these, whose free amounts are not known then; and why, by node (empty: the pod has none).
    """
    classes = [one for one in objects if one.get("kind") == "PriorityClass"]
    reasons: dict[str, str] = {}
    unreadable: set[int] = set()
    for one in objects:
        if one.get("kind") == "Pod":
            spec = {name: value for name, value in one["spec"].items() if name != "nodeName"}
            try:
                alone = {"objects": classes, "pods": [{**one, "spec": spec}]}
                case_of("cluster", alone, release.release())
            except WorldError as error:
                unreadable.add(id(one))
                reasons.setdefault(one["spec"].get("nodeName", ""), str(error))
    left_out = reasons.keys() - {""}
    kept = [
        one
        for one in objects
        if id(one) not in unreadable
        and not (one.get("kind") == "Node" and one["metadata"]["name"] in left_out)
        and not (one.get("kind") == "Pod" and one["spec"].get("nodeName") in left_out)
    ]
    return kept, reasons


def of_case(
    what: str,
    objects: Sequence[Object],
    wanted: Object,
    *,
    is_named: bool = False,
    now_ms: int | None = None,
    config: Configuration | None = None,
    release: ReleaseOptions = DEFAULT_OPTIONS,
) -> Cluster:
    """Return the cluster of these objects, in which `wanted` should fit. `is_named`: it is a
    pending pod, for which none of higher priority moves. Without `now_ms` pods have run until the
    last one started. Raises WorldError.
    """
    others = [one for one in objects if one is not wanted]
    case = case_of(what, {"objects": others, "pods": [wanted]}, release.release())
    shard = CaseShard(case, config, release)
    spec = case.asked[0].spec
    documents = {
        (one["metadata"].get("namespace") or "default", one["metadata"]["name"]): one
        for one in others
        if one.get("kind") == "Pod"
    }
    if now_ms is None:
        now_ms = max((one.pod.start_ms for one in case.placed), default=0)
    highest = spec.priority if is_named else None
    pods = {
        PodId(number): _running(one, documents, case, now_ms, highest)
        for number, one in enumerate(case.placed, start=1)
    }
    return Cluster(shard.state, pods, shard.sig(spec))


def _running(
    placed: Placed,
    documents: Mapping[tuple[str, str], Object],
    case: Case,
    now_ms: int,
    priority_max: int | None,
) -> RunningPod:
    pod = placed.pod
    document = documents[pod.namespace, pod.name]
    return RunningPod(
        f"{pod.namespace}/{pod.name}",
        uid_of(pod),
        controller_of(document).get("uid", ""),
        max(0, now_ms - pod.start_ms) if pod.start_ms else 0,
        why_it_stays(pod, document, case.budgets, priority_max),
    )


def of_run(
    ingest: IngestState, shard: PlacementState, binding: BindingState, now_ms: int, wanted: PodSpec
) -> Cluster:
    """Return the cluster of a run of a world with one shard. Nothing in a world says which pods are
    made again, so all may move but members of gangs, and pods whose budget allows none.
    """
    sig = SignatureId(shard.last_sig + 1)
    PlacementCore(shard.shard).evolve(shard, SignatureDefined(sig, wanted))
    table, ledger = binding.table, shard.ledger
    keys = {record.id: key for key, record in ingest.gangs.items()}
    slots = {ingest.pods.ids.item(slot): (uid, slot) for uid, slot in ingest.pods.slots.items()}
    allowed = {one.id: (one.budget.name, one.budget.allowed) for one in ingest.budgets.values()}
    pods: dict[PodId, RunningPod] = {}
    for row in np.flatnonzero(table.flags[: table.used] & (DEAD | NAMED) == NAMED).tolist():
        pod = PodId(table.pod_at(row))
        at = pod - ledger.base
        if pod not in slots or not 0 <= at < len(ledger.kind):
            continue
        uid, slot = slots[pod]
        chunk = table.names[int(table.chunks[row])]
        name = f"{chunk.namespace}/{chunk.name_list()[int(table.places[row])]}"
        started_ms = int(ledger.start_ms[at])
        started_ms -= UNSTARTED_MS if started_ms >= UNSTARTED_MS else 0
        gang = keys.get(GangId(ingest.pods.gangs.item(slot)), "")
        budget = int(ledger.budget[at])
        stays = f"is a member of gang {gang}" if gang else ""
        if budget and (pod in shard.budgets_more or allowed[budget][1] < 1):
            stays = f"budget {allowed[budget][0]} allows no disruption"
        pods[pod] = RunningPod(name, uid, "", max(0, now_ms - started_ms), stays)
    return Cluster(shard, pods, sig)
