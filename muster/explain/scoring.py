"""Explains a case: how each node fares for a pod, plugin by plugin, as placement decides it.

The answer comes from a shard's own state and plugins, so that it can be held against
kube-scheduler's (tests/parity).
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from muster.explain.case_answer import (
    ERROR,
    UNRESOLVABLE,
    CaseAnswer,
    NodeStatus,
    PodAnswer,
    Preemption,
    PreemptionCandidate,
    SearchAnswer,
    Status,
    failed,
)
from muster.explain.case_shard import CaseShard
from muster.explain.claims import CaseClaims, without_claims
from services.placement.core.books.charges import compiled
from services.placement.core.placing import sampling
from services.placement.core.preemption.nominations import nominate, nominated_pods_for
from services.placement.core.preemption.post_filter import decide_all_candidates, is_from_plugin
from services.placement.core.preemption.reprieve import candidate_of
from services.placement.core.preemption.unit_parts import Victim
from services.preemption.core.candidate_choice import Choice, found_message, message, order
from services.preemption.core.extender_victims import NO_CANDIDATE_LEFT
from services.queueing.core.waiting.messages import NEVER, STILL_LEAVING, fit_error, gates_message
from shared.events.ingest import BudgetCovers
from shared.events.placement import Candidate, CandidatesFound
from shared.events.preemption import BudgetLeft, BudgetNamed, DryRunAsked
from shared.extenders.calls import ask_victims, filter_nodes, score_nodes
from shared.extenders.values import ExtenderError, Victims
from shared.kubernetes.objects.affinity import selects
from shared.kubernetes.objects.claims.written import allocation_object
from shared.kubernetes.objects.errors import WorldError
from shared.model.columns import pack, unpack
from shared.model.ids import NO_SIGNATURE, AskId, NodeId, PodId, SignatureId
from shared.model.objects import Budget, PodSpec
from shared.model.preemption.post_filter import NOT_FOUND, around
from shared.model.preemption.victims import Nominee
from shared.model.profile import DYNAMIC_RESOURCES, Configuration, Profile
from shared.model.release import DEFAULT_OPTIONS, V1_37, ReleaseOptions
from shared.scheduling.api.custom.plugin import PLUGINS
from shared.scheduling.claims.pod_claims import ClaimingPod, Fit, NotReady, normalised
from shared.scheduling.claims.reach import NodeView
from shared.scheduling.cycle.report import NodeReport, ended_early, explain, pre_filter, reasons
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.plugins.narrowed_nodes import LEFT_OUT, SIMULTANEOUSLY
from shared.scheduling.profile import GPU_DEVICES, GPU_MODEL
from shared.scheduling.table.layout import NominatedPods
from shared.scheduling.table.picks import Pick, Sampled
from shared.worlds.arrivals import Pod, uid_of
from shared.worlds.case import Case, case_of

SUCCESS, UNSCHEDULABLE = "Success", "Unschedulable"


def score_case(
    case: Mapping[str, Any],
    what: str = "case",
    config: Configuration | None = None,
    release: ReleaseOptions = DEFAULT_OPTIONS,
) -> CaseAnswer:
    """Answer a case {"objects": [...], "pods": [...]}.

    The answer has, for each pod, the feasible nodes with their weighted scores and the other nodes
    with the plugin that refused them and its reason. With "preempt": true it also has the nodes
    where preemption would make room for a pod that fits nowhere, with the victims. The case's
    "config" or `config` has the profiles. If a profile samples nodes, the nodes not examined are
    left out, and each pod's search begins where the last one ended. Raises WorldError.
    """
    claims = CaseClaims(what, case, release.compatibility)
    read = case_of(what, without_claims(case), release.release())
    if config is not None and read.config is not None:
        raise WorldError(what, "config", "is given with --config already: drop one of the two")
    shard = _Shard(read, case.get("objects") or (), config or read.config, release, claims)
    pods: list[PodAnswer] = []
    columns = read.asked, read.asked_nodes, read.asked_gates, case.get("pods") or ()
    for number, (pod, node, gates, object_given) in enumerate(zip(*columns, strict=True)):
        shard.check(what, pod)
        claiming = claims.used_by(number, object_given)
        if claiming is not None:
            shard.check_claiming(what, pod, asks_preemption=read.preempt)
        try:
            result = shard.answer(pod.spec, node, object_given, claiming)
        except ExtenderError as error:
            raise WorldError(f"{what}: Pod {pod.namespace}/{pod.name}", "", str(error)) from error
        answer: PodAnswer = {
            "namespace": pod.namespace,
            "name": pod.name,
            # mypy cannot know that it has none of the keys that only PodAnswer has.
            **result,  # type: ignore[typeddict-item]
        }
        if gates:
            answer["preEnqueueStatus"] = _rejected("SchedulingGates", gates_message(gates))
        elif claiming is not None and (missing := claims.not_ready(claiming)):
            answer["preEnqueueStatus"] = _rejected(DYNAMIC_RESOURCES, missing)
        if read.preempt and answer["fitError"] and read.nodes:
            try:
                answer["preemption"] = shard.preemption(pod.spec, node, object_given)
            except ExtenderError as error:
                raise WorldError(
                    f"{what}: Pod {pod.namespace}/{pod.name}", "", f"preemption: {error}"
                ) from error
        pods.append(answer)
    return {"pods": pods}


class _Shard:
    """One shard that holds the case."""

    def __init__(
        self,
        case: Case,
        objects: Sequence[Mapping[str, Any]],
        config: Configuration | None,
        release: ReleaseOptions,
        claims: CaseClaims,
    ) -> None:
        """`objects` are the objects of the case, unchanged."""
        self._claims = claims
        self._shard = CaseShard(case, config, release)
        self._state, self._sig = self._shard.state, self._shard.sig
        self._profiles = [] if config is None else [one.name for one in config.profiles]
        self._extenders = () if config is None else config.extenders
        self._objects = {
            one["metadata"]["name"]: one for one in objects if one.get("kind") == "Node"
        }
        self._pod_objects = {
            (one["metadata"].get("namespace") or "default", one["metadata"]["name"]): one
            for one in objects
            if one.get("kind") == "Pod"
        }
        self._names = [node.name for node in case.nodes]
        self._labels = {node.name: node.labels for node in case.nodes}
        ids = self._shard.ids
        self._placed = case.placed
        for ask, one in enumerate(case.nominated, start=1):
            pod, sig = PodId(len(self._placed) + ask), self._sig(one.pod.spec)
            nominate(self._state, Nominee(AskId(ask), pod, sig, ids[one.node]))
        self._state.start_index = case.start_index
        self._asked = PodId(len(self._placed) + len(case.nominated) + 1)
        self._left = tuple(
            BudgetLeft(number, budget.allowed)
            for number, budget in enumerate(case.budgets, start=1)
            if self._cover(number, budget)
        )
        self._counted = tuple(
            BudgetNamed(number, pack(pods))
            for number, budget in enumerate(case.budgets, start=1)
            if (pods := self._numbers(budget.disrupted))
        )

    def _cover(self, number: int, budget: Budget) -> bool:
        covered = [
            pod
            for pod, one in enumerate(self._placed, start=1)
            if one.pod.labels
            and one.pod.namespace == budget.namespace
            and selects(dict(one.pod.labels), budget.match_labels, budget.match_expressions)
        ]
        if covered:
            self._shard.evolve(BudgetCovers(number, pack(covered)))
        return bool(covered)

    def _numbers(self, uids: Sequence[str]) -> list[int]:
        """Return the numbers of pods on nodes, by uid."""
        placed = enumerate(self._placed, start=1)
        return [number for number, one in placed if uid_of(one.pod) in uids]

    def check(self, what: str, pod: Pod) -> None:
        """Check that the pod has a profile. Raises WorldError."""
        name = pod.spec.scheduler
        if self._profiles and name not in self._profiles:
            rule = f"no profile {name!r}: there is {', '.join(self._profiles)}"
            raise WorldError(f"{what}: Pod {pod.namespace}/{pod.name}", "spec.schedulerName", rule)

    def check_claiming(self, what: str, pod: Pod, *, asks_preemption: bool) -> None:
        """Check that a pod with resource claims can be answered. Raises WorldError."""
        reasons = {
            "with preempt": asks_preemption,
            "with extenders": bool(self._extenders),
            "in a profile that samples nodes": self._state.tree is not None,
        }
        for where, is_so in reasons.items():
            if is_so:
                rule = f"pods with claims are not supported {where} yet"
                named = f"{what}: Pod {pod.namespace}/{pod.name}"
                raise WorldError(named, "spec.resourceClaims", rule)

    def answer(
        self,
        spec: PodSpec,
        node: str,
        pod: Mapping[str, Any],
        claiming: ClaimingPod | None = None,
    ) -> SearchAnswer:
        """Return the answer about one pod, without its name. `node` is its nominated node, `pod`
        the object that extenders get, `claiming` the pod if it uses resource claims. Raises
        ExtenderError, WorldError.
        """
        number = self._sig(spec)
        sig, nominated_pods = (
            compiled(self._state, number),
            nominated_pods_for(self._state, spec.priority),
        )
        table = self._state.table
        if self._state.tree is None:
            reports = {one.name: one for one in explain(table, sig, nominated_pods)}
            answer = self._answer(sig, nominated_pods, reports)
            pick = self._state.kernel.place_one(table, sig, nominated_pods)
            _assert_same(answer, pick)
            if claiming is not None:
                return self._claiming(sig, nominated_pods, reports, answer, claiming)
            fits = [name for name in self._names if not reports[name].plugin]
            return (
                self._extended(sig, nominated_pods, reports, fits, pod)
                if self._extenders
                else answer
            )
        # Extenders are called about all nodes, nominated or not.
        row = None if self._extenders else table.row_named(node)
        sampled = sampling.place(self._state, number, nominated_pods, row)
        found = explain(table, sig, nominated_pods, sampled.found)
        if pre_filter(table, sig) is None:
            found = [one for one in found if self._is_told(one, sampled, row)]
        reports = {one.name: one for one in found}
        answer = self._answer(sig, nominated_pods, reports)
        _assert_same(answer, sampled.pick)
        if self._extenders:
            fits = [table.nodes[row].name for row in sampled.found.tolist()]
            answer = self._extended(sig, nominated_pods, reports, fits, pod)
        sampling.note_search(self._state, sampled.examined)
        answer["sampling"] = {"next": self._state.start_index}
        return answer

    def _is_told(self, report: NodeReport, sampled: Sampled, nominated: int | None) -> bool:
        """Return whether the node was examined. Nodes that PreFilter left out count as examined if
        there was a search.
        """
        row = self._state.table.row_of(report.node_id)
        if row == nominated or row in sampled.looked_at:
            return True
        is_nominated = sampled.pick is not None and not sampled.examined
        return _is_left_out(report) and not is_nominated

    def _answer(
        self, sig: Signature, nominated_pods: NominatedPods, reports: Mapping[str, NodeReport]
    ) -> SearchAnswer:
        names = [name for name in self._names if name in reports]
        totals = {name: reports[name].total for name in names if not reports[name].plugin}
        return {
            "preFilterStatus": _pre_filter_status(self._rejected_by(sig)),
            "nodes": {name: _node(reports[name]) for name in names},
            "fitError": "" if totals else self._fit_error(sig, nominated_pods),
            "best": _best(totals),
        }

    def _rejected_by(self, sig: Signature) -> tuple[str, str] | None:
        """Return plugin and message of a PreFilter that rejects the pod; kube-scheduler runs none
        without nodes.
        """
        return pre_filter(self._state.table, sig) if self._names else None

    def _claiming(
        self,
        sig: Signature,
        nominated_pods: NominatedPods,
        reports: Mapping[str, NodeReport],
        answer: SearchAnswer,
        pod: ClaimingPod,
    ) -> SearchAnswer:
        """Return the answer with the filter and the scores of DynamicResources. The others may have
        rejected the pod before.
        """
        table, profile = self._state.table, sig.plugins.profile
        if not self._names or DYNAMIC_RESOURCES not in profile.filters or ended_early(table, sig):
            return answer
        try:
            claims = self._claims.needed(pod)
        except NotReady as error:
            return self._not_ready(str(error))
        if not claims or pre_filter(table, sig) is not None:
            return answer
        later = _filters_after_claims(profile)
        asked = {
            name: NodeView(name, self._labels[name])
            for name, one in reports.items()
            if not one.plugin or (one.plugin in later and not _is_left_out(one))
        }
        fits, refused = self._claims.fits(claims, asked.values())
        left = [name for name in fits if not reports[name].plugin]
        rows = np.array([table.row_named(name) for name in left], np.int64)
        scored = {one.name: one for one in explain(table, sig, nominated_pods, rows)}
        nodes = {
            name: refused[name] if name in refused else _node(scored[name]) for name in self._names
        }
        _add_claims(nodes, {name: fits[name] for name in left}, profile)
        errors = [text for one in nodes.values() if one["code"] == ERROR for text in one["reasons"]]
        answer["nodes"] = nodes
        answer["best"] = [] if errors else _best({name: nodes[name]["total"] for name in left})
        if errors:
            answer["fitError"] = f'running "{DYNAMIC_RESOURCES}" filter plugin: {errors[0]}'
        elif not left:
            counts = Counter(text for one in nodes.values() for text in one["reasons"])
            answer["fitError"] = fit_error(counts, table.size)
        return answer

    def _not_ready(self, message: str) -> SearchAnswer:
        """Return the answer about a pod that DynamicResources rejects on all nodes."""
        rejected = _rejected(DYNAMIC_RESOURCES, message)
        return {
            "preFilterStatus": rejected,
            "nodes": {
                name: failed(UNRESOLVABLE, message, DYNAMIC_RESOURCES) for name in self._names
            },
            "fitError": fit_error({message: 0}, self._state.table.size),
            "best": [],
        }

    def _extended(
        self,
        sig: Signature,
        nominated_pods: NominatedPods,
        reports: Mapping[str, NodeReport],
        fits: Sequence[str],
        pod: Mapping[str, Any],
    ) -> SearchAnswer:
        """Return the answer with the extenders' filter and scores for the nodes that fit, in this
        order.
        """
        table = self._state.table
        if not fits:
            return self._answer(sig, nominated_pods, reports)
        asked = {name: self._objects[name] for name in fits}
        left = asyncio.run(filter_nodes(self._extenders, pod, asked))
        rows = np.array([table.row_named(name) for name in left.nodes], np.int64)
        scored = {one.name: one for one in explain(table, sig, nominated_pods, rows)}
        refused = {name: one for name, one in reports.items() if one.plugin}
        answer = self._answer(
            sig, nominated_pods, refused | {name: scored[name] for name in left.nodes}
        )
        nodes = answer["nodes"]
        nodes |= {
            name: _failed(*failure)
            for name, failure in left.failed.items()
            if name in self._objects and name not in left.nodes
        }
        narrowing = sig.plugins.narrowing(sig.spec)
        if narrowing is not None:
            # kube-scheduler reports nodes that an extender drops without a reason like nodes that
            # PreFilter left out.
            silent = [name for name in fits if name not in nodes]
            nodes |= {name: _failed(narrowing.message, resolvable=False) for name in silent}
        if not left.nodes:
            reasons = Counter(text for one in nodes.values() for text in one["reasons"])
            # kube-scheduler also counts reasons about nodes that do not exist.
            unknown = left.failed.keys() - self._objects.keys()
            reasons.update(left.failed[name][0] for name in unknown)
            answer["fitError"] = fit_error(reasons, table.size)
            return answer
        asked = {name: self._objects[name] for name in left.nodes}
        for url, more in asyncio.run(score_nodes(self._extenders, pod, asked)).items():
            for name in left.nodes:
                if name in more:
                    nodes[name]["scores"][url] = more[name]
                    nodes[name]["total"] += more[name]
        answer["best"] = _best({name: nodes[name]["total"] for name in left.nodes})
        return answer

    def preemption(self, spec: PodSpec, node: str, pod: Mapping[str, Any]) -> Preemption:
        """Return the candidates for preemption, the chosen node and its victims, or why there are
        none. `node` is the pod's nominated node, `pod` the object that extenders get. Raises
        ExtenderError.
        """
        plugins, sig = self._state.plugins_of(spec), self._sig(spec)
        profile = plugins.profile

        def no_victims(*texts: str) -> Preemption:
            return _preemption(message=", ".join(around(plugins.claims, *texts)))

        if profile.claims and ended_early(self._state.table, compiled(self._state, sig)):
            return _preemption(message=NOT_FOUND)
        if not profile.makes_room:
            return no_victims()
        if spec.never_preempts:
            return no_victims(NEVER)
        if self._is_waited_for(spec, node):
            return no_victims(STILL_LEAVING)
        asked = DryRunAsked(AskId(1), self._asked, sig, self._left, named=self._counted)
        answer = decide_all_candidates(self._state, asked)
        found: Sequence[Candidate] = answer.candidates
        if not found:
            return _preemption(message=message([answer]))
        names = {one.node: self._state.nodes[one.node].name for one in found}
        candidates = {names[one.node]: self._candidate(one) for one in found}
        # Extenders only change the candidates of DefaultPreemption.
        if not is_from_plugin(self._state, answer, sig) and any(
            one.preempts(pod) for one in self._extenders
        ):
            found = self._judged(found, names, pod)
        if not found:
            return no_victims(f"preemption: {NO_CANDIDATE_LEFT}")
        best = min((Choice(0, one, one.violations) for one in found), key=order).candidate
        victims = [self._placed[number - 1].pod for number in unpack(best.victims).tolist()]
        return _preemption(
            candidates,
            names[best.node],
            self._found(answer, sig, names[best.node], len(victims)),
            evicted=[f"{one.namespace}/{one.name}" for one in victims if not one.terminating],
        )

    def _found(self, answer: CandidatesFound, sig: SignatureId, node: str, victims: int) -> str:
        """Return DefaultPreemption's text about the chosen node, which it has since 1.37."""
        version = self._state.config.compatibility
        if version < V1_37 or is_from_plugin(self._state, answer, sig):
            return ""
        return found_message(node, victims)

    def _judged(
        self, found: Sequence[Candidate], names: Mapping[NodeId, str], pod: Mapping[str, Any]
    ) -> list[Candidate]:
        """Return the candidates as the extenders left or changed them."""
        uids = [uid_of(one.pod) for one in self._placed]
        numbers = {uid: PodId(number) for number, uid in enumerate(uids, start=1)}
        uids_on: dict[str, list[str]] = {name: [] for name in self._names}
        for one, uid in zip(self._placed, uids, strict=True):
            uids_on[one.pod.node].append(uid)
        objects = {
            uid: _with_uid(self._pod_objects[one.pod.namespace, one.pod.name], uid)
            for one, uid in zip(self._placed, uids, strict=True)
        }
        victims_of = {
            names[one.node]: Victims(
                tuple(uids[number - 1] for number in unpack(one.victims).tolist()), one.violations
            )
            for one in found
        }
        left = asyncio.run(ask_victims(self._extenders, pod, victims_of, objects, uids_on))
        # Of equal candidates the first one found wins, as in a run, whatever the extenders' order.
        return [
            candidate_of(
                one.node,
                [self._victim(numbers[uid]) for uid in left[names[one.node]].uids],
                left[names[one.node]].violations,
                self._state.world,
            )
            for one in found
            if names[one.node] in left
        ]

    def _victim(self, number: PodId) -> Victim:
        ledger = self._state.ledger
        start_ms = int(ledger.start_ms[number - ledger.base])
        return Victim(number, NO_SIGNATURE, 0, self._placed[number - 1].pod.spec.priority, start_ms)

    def _is_waited_for(self, spec: PodSpec, node: str) -> bool:
        """Return whether victims of the pod are terminating on its nominated node, and preemption
        can still help there.
        """
        leaving = [
            one for one in self._placed if one.preempted and one.pod.spec.priority < spec.priority
        ]
        row = self._state.table.row_named(node)
        if row is None or not any(one.pod.node == node for one in leaving):
            return False
        nominated_pods = nominated_pods_for(self._state, spec.priority)
        rows = self._state.kernel.resolvable_rows(
            self._state.table, compiled(self._state, self._sig(spec)), nominated_pods
        )
        return row in rows

    def _candidate(self, candidate: Candidate) -> PreemptionCandidate:
        victims = [self._placed[number - 1].pod for number in unpack(candidate.victims).tolist()]
        names = [f"{victim.namespace}/{victim.name}" for victim in victims]
        return {"victims": names, "violations": candidate.violations}

    def _fit_error(self, sig: Signature, nominated_pods: NominatedPods) -> str:
        table = self._state.table
        return fit_error(reasons(table, sig, nominated_pods).messages, table.size)


def _with_uid(pod: Mapping[str, Any], uid: str) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "uid": uid}}


def _preemption(
    found: dict[str, PreemptionCandidate] | None = None,
    best: str = "",
    message: str = "",
    evicted: Sequence[str] = (),
) -> Preemption:
    """Return PostFilter's answer. Victims that terminate already are not evicted again."""
    return Preemption(candidates=found or {}, best=best, message=message, evicted=sorted(evicted))


def _best(totals: Mapping[str, int]) -> list[str]:
    highest = max(totals.values(), default=0)
    return sorted(name for name, total in totals.items() if total == highest)


def _filters_after_claims(profile: Profile) -> set[str]:
    """Return the filters that run after DynamicResources, with those that Muster adds."""
    names = profile.filters
    return {*names[names.index(DYNAMIC_RESOURCES) + 1 :], GPU_MODEL.name, GPU_DEVICES.name}


def _add_claims(nodes: Mapping[str, NodeStatus], fits: Mapping[str, Fit], profile: Profile) -> None:
    """Add what claims would get on the nodes where they fit, and the scores of that."""
    weight = profile.weight(DYNAMIC_RESOURCES)
    for name, score in normalised({name: fit.score for name, fit in fits.items()}).items():
        node = nodes[name]
        if weight:
            node["scores"][DYNAMIC_RESOURCES] = score * weight
            node["total"] += score * weight
        if allocations := fits[name].allocations:
            node["allocations"] = {
                claim.shown: allocation_object(given) for claim, given in allocations
            }


def _assert_same(answer: SearchAnswer, pick: Pick | None) -> None:
    """Check that the explained pick is the decided one. Raises WorldError if a user's plugin gave
    two answers to one question.
    """
    totals = [one["total"] for one in answer["nodes"].values() if one["feasible"]]
    decided = (0, 0) if pick is None else (pick.feasible, pick.total)
    if decided == (len(totals), max(totals, default=0)):
        return
    assert PLUGINS, f"explained {totals}, decided {pick}"
    rule = "gave two answers to one question: does it remember something? A replay would differ"
    raise WorldError(f"--plugin {', '.join(sorted(PLUGINS))}", "", rule)


def _failed(text: str, resolvable: bool) -> NodeStatus:
    """Return the report of a node that an extender refused."""
    return failed(UNSCHEDULABLE if resolvable else UNRESOLVABLE, text)


def _is_left_out(report: NodeReport) -> bool:
    """Return whether PreFilter left the node out of the search."""
    return any(text.startswith(LEFT_OUT) for text in report.messages)


def _pre_filter_status(refusal: tuple[str, str] | None) -> Status:
    if refusal is None:
        return {"code": SUCCESS, "reasons": [], "plugin": ""}
    return _rejected(*refusal)


def _rejected(plugin: str, message: str) -> Status:
    by = "" if message.endswith(SIMULTANEOUSLY) else plugin  # of two plugins none is named
    return {"code": UNRESOLVABLE, "reasons": [message], "plugin": by}


def _node(report: NodeReport) -> NodeStatus:
    if report.plugin:
        return {
            "feasible": False,
            "code": UNSCHEDULABLE if report.resolvable else UNRESOLVABLE,
            # PreFilter left these nodes out, and kube-scheduler names no plugin.
            "plugin": "" if _is_left_out(report) else report.plugin,
            "reasons": list(report.messages),
            "scores": {},
            "total": 0,
        }
    return {
        "feasible": True,
        "code": SUCCESS,
        "plugin": "",
        "reasons": [],
        "scores": {one.plugin: one.normalised * one.weight for one in report.scores},
        "total": report.total,
    }
