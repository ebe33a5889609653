"""How each node would fare for a pod, plugin by plugin: what placement itself says of a case.

The answer comes from a shard's own state and plugins, so that it can be held against
kube-scheduler's (tests/parity).
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import to_builtins

from services.placement.core.books.charges import compiled
from services.placement.core.core import PlacementCore, PlacementState
from services.placement.core.placing import sampling
from services.placement.core.preemption.dry_run import Victim, candidate_of
from services.placement.core.preemption.nominations import held_against, nominate
from services.placement.core.preemption.post_filter import all_found, is_own
from services.preemption.core.candidate_choice import Choice, message, order
from services.preemption.core.extender_victims import NOBODY_LEFT
from services.queueing.core.waiting.messages import NEVER, STILL_LEAVING, fit_error, gates_message
from shared.events.base import Configured, Event
from shared.events.ingest import BudgetCovers, NodesSet, PodsAssigned, PodsStarted, SignatureDefined
from shared.events.placement import Candidate
from shared.events.preemption import BudgetLeft, BudgetNamed, DryRunAsked
from shared.extenders.calls import filter_nodes, judge_victims, score_nodes
from shared.extenders.values import ExtenderError, Victims
from shared.kubernetes.objects.affinity import selects
from shared.kubernetes.objects.errors import WorldError
from shared.model.columns import pack, unpack
from shared.model.objects import Budget, PodSpec
from shared.model.post_filter import NOT_FOUND, around
from shared.model.profile import V1_35, Configuration
from shared.model.victims import Nominee
from shared.scheduling.api.custom import PLUGINS
from shared.scheduling.cycle.report import NodeReport, ended_early, explain, pre_filter, reasons
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.profile import NAMED_NODES
from shared.scheduling.table.layout import Held
from shared.scheduling.table.picks import Pick, Sampled
from shared.scheduling.volumes.storage import Storage
from shared.worlds.arrivals import Pod, uid_of
from shared.worlds.case import Case, case_of

SUCCESS, UNSCHEDULABLE = "Success", "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"


def score_case(
    case: Mapping[str, Any],
    what: str = "case",
    config: Configuration | None = None,
    version: str = V1_35,
) -> dict[str, Any]:
    """The answer to {"objects": [...], "pods": [...]}: for each pod its feasible nodes with their
    weighted scores, the others with who refused them and why; with "preempt": true also where
    preemption would make room for a pod that fits nowhere, and by whose end. The case's "config"
    or `config` has the profiles. Where one of them samples, nodes that were not looked at are left
    out, and the search of each pod begins where that of the one before ended. Raises WorldError.
    """
    read = case_of(what, dict(case))
    if config is not None and read.config is not None:
        raise WorldError(what, "config", "there is another one beside the case")
    shard = _Shard(read, case.get("objects") or (), config or read.config, version)
    pods = []
    columns = read.asked, read.asked_nodes, read.asked_gates, case.get("pods") or ()
    for pod, node, gates, object_given in zip(*columns, strict=True):
        shard.check(what, pod)
        try:
            said = shard.answer(pod.spec, node, object_given)
        except ExtenderError as error:
            raise WorldError(f"{what}: Pod {pod.namespace}/{pod.name}", "", str(error)) from error
        answer = {"namespace": pod.namespace, "name": pod.name, **said}
        if gates:
            answer["preEnqueueStatus"] = _rejected("SchedulingGates", gates_message(gates))
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
        version: str,
    ) -> None:
        """`objects` are those of the case as they were given."""
        self._core = PlacementCore(0)
        self._state: PlacementState = self._core.new()
        self._profiles = [] if config is None else [one.name for one in config.profiles]
        profiles = () if config is None else config.profiles
        self._extenders = () if config is None else config.extenders
        self._objects = {
            one["metadata"]["name"]: one for one in objects if one.get("kind") == "Node"
        }
        self._pod_objects = {
            (one["metadata"].get("namespace") or "default", one["metadata"]["name"]): one
            for one in objects
            if one.get("kind") == "Pod"
        }
        options = {"profiles": to_builtins(profiles), "compatibility": version}
        self._evolve(Configured({"placement": options}))
        self._state.table.counters.labels_of = dict(case.namespaces)
        self._state.table.storage = Storage(case.storage)
        self._sigs: dict[PodSpec, int] = {}
        self._names = [node.name for node in case.nodes]
        ids = {name: number for number, name in enumerate(self._names, start=1)}
        self._evolve(NodesSet(0, pack(list(ids.values())), case.nodes))
        self._placed = case.placed
        for number, placed in enumerate(self._placed, start=1):
            sig, node = self._sig(placed.pod.spec), ids[placed.pod.node]
            self._evolve(PodsAssigned(0, pack([number]), pack([sig]), pack([node])))
            if placed.pod.start_ms:
                self._evolve(PodsStarted(0, pack([number]), pack([placed.pod.start_ms])))
        for ask, one in enumerate(case.nominated, start=1):
            pod, sig = len(self._placed) + ask, self._sig(one.pod.spec)
            nominate(self._state, Nominee(ask, pod, sig, ids[one.node]))
        self._state.start_index = case.start_index
        self._asked = len(self._placed) + len(case.nominated) + 1
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

    def _evolve(self, event: Event) -> None:
        self._core.evolve(self._state, event)

    def _cover(self, number: int, budget: Budget) -> bool:
        covered = [
            pod
            for pod, one in enumerate(self._placed, start=1)
            if one.pod.labels
            and one.pod.namespace == budget.namespace
            and selects(dict(one.pod.labels), budget.match_labels, budget.match_expressions)
        ]
        if covered:
            self._evolve(BudgetCovers(number, pack(covered)))
        return bool(covered)

    def _numbers(self, uids: Sequence[str]) -> list[int]:
        """Of pods on nodes."""
        placed = enumerate(self._placed, start=1)
        return [number for number, one in placed if uid_of(one.pod) in uids]

    def _sig(self, spec: PodSpec) -> int:
        sig = self._sigs.get(spec)
        if sig is None:
            sig = self._sigs[spec] = len(self._sigs) + 1
            self._evolve(SignatureDefined(sig, spec))
        return sig

    def check(self, what: str, pod: Pod) -> None:
        """Whether there is a profile for the pod. Raises WorldError."""
        name = pod.spec.scheduler
        if self._profiles and name not in self._profiles:
            rule = f"no profile {name!r}: there is {', '.join(self._profiles)}"
            raise WorldError(f"{what}: Pod {pod.namespace}/{pod.name}", "spec.schedulerName", rule)

    def answer(self, spec: PodSpec, node: str, pod: Mapping[str, Any]) -> dict[str, Any]:
        """Everything about one pod but its name; `node` is the one that it is nominated for, `pod`
        the object that extenders get. Raises ExtenderError.
        """
        number = self._sig(spec)
        sig, held = compiled(self._state, number), held_against(self._state, spec.priority)
        table = self._state.table
        if self._state.tree is None:
            reports = {one.name: one for one in explain(table, sig, held)}
            answer = self._answer(sig, held, reports)
            pick = self._state.kernel.place_one(table, sig, held)
            _assert_same(answer, pick)
            fits = [name for name in self._names if not reports[name].plugin]
            return self._extended(sig, held, reports, fits, pod) if self._extenders else answer
        # Who is called anyway looks at all nodes alike.
        row = None if self._extenders else table.row_named(node)
        sampled = sampling.place(self._state, number, held, row)
        found = explain(table, sig, held, sampled.found)
        if pre_filter(table, sig) is None:
            found = [one for one in found if self._is_told(one, sampled, row)]
        reports = {one.name: one for one in found}
        answer = self._answer(sig, held, reports)
        _assert_same(answer, sampled.pick)
        if self._extenders:
            fits = [table.nodes[row].name for row in sampled.found.tolist()]
            answer = self._extended(sig, held, reports, fits, pod)
        sampling.searched(self._state, sampled.examined)
        return answer | {"sampling": {"next": self._state.start_index}}

    def _is_told(self, report: NodeReport, sampled: Sampled, nominated: int | None) -> bool:
        """Whether the node was looked at; one that PreFilter left out was, if there was a search at
        all.
        """
        row = self._state.table.row_of(report.node_id)
        if row == nominated or row in sampled.looked_at:
            return True
        is_nominated = sampled.pick is not None and not sampled.examined
        return _is_left_out(report) and not is_nominated

    def _answer(
        self, sig: Signature, held: Held, reports: Mapping[str, NodeReport]
    ) -> dict[str, Any]:
        names = [name for name in self._names if name in reports]
        totals = {name: reports[name].total for name in names if not reports[name].plugin}
        return {
            "preFilterStatus": _pre_filter_status(self._rejected_by(sig)),
            "nodes": {name: _node(reports[name]) for name in names},
            "fitError": "" if totals else self._fit_error(sig, held),
            "best": _best(totals),
        }

    def _rejected_by(self, sig: Signature) -> tuple[str, str] | None:
        """Plugin and message of a PreFilter; without nodes kube-scheduler asks none."""
        return pre_filter(self._state.table, sig) if self._names else None

    def _extended(
        self,
        sig: Signature,
        held: Held,
        reports: Mapping[str, NodeReport],
        fits: Sequence[str],
        pod: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The answer where extenders judge the nodes that fit, in this order."""
        table = self._state.table
        if not fits:
            return self._answer(sig, held, reports)
        asked = {name: self._objects[name] for name in fits}
        left = asyncio.run(filter_nodes(self._extenders, pod, asked))
        rows = np.array([table.row_named(name) for name in left.nodes], np.int64)
        scored = {one.name: one for one in explain(table, sig, held, rows)}
        refused = {name: one for name, one in reports.items() if one.plugin}
        answer = self._answer(sig, held, refused | {name: scored[name] for name in left.nodes})
        nodes = answer["nodes"]
        nodes |= {
            name: _failed(*said)
            for name, said in left.failed.items()
            if name in self._objects and name not in left.nodes
        }
        named = sig.plugins.left_out(table, sig.spec)
        if named is not None:
            # Of who is dropped without a word kube-scheduler says what it says of nodes that
            # PreFilter left out, even if it left out none.
            silent = [name for name in fits if name not in nodes]
            nodes |= {name: _failed(NAMED_NODES.message, resolvable=False) for name in silent}
        if not left.nodes:
            said = Counter(text for one in nodes.values() for text in one["reasons"])
            # kube-scheduler counts what is said against nodes that there are not, too.
            unknown = left.failed.keys() - self._objects.keys()
            said.update(left.failed[name][0] for name in unknown)
            answer["fitError"] = fit_error(said, table.size)
            return answer
        asked = {name: self._objects[name] for name in left.nodes}
        for url, more in asyncio.run(score_nodes(self._extenders, pod, asked)).items():
            for name in left.nodes:
                if name in more:
                    nodes[name]["scores"][url] = more[name]
                    nodes[name]["total"] += more[name]
        answer["best"] = _best({name: nodes[name]["total"] for name in left.nodes})
        return answer

    def preemption(self, spec: PodSpec, node: str, pod: Mapping[str, Any]) -> dict[str, Any]:
        """Nodes on which the end of some pods would make room, the one that is chosen and who goes
        there; or why nobody does. `node` is the one that the pod is nominated for, `pod` the object
        that extenders get. Raises ExtenderError.
        """
        profile, sig = self._state.plugins_of(spec).profile, self._sig(spec)

        def nobody(*own: str) -> dict[str, Any]:
            return _preemption(message=", ".join(around(profile.claims, *own)))

        if profile.claims and ended_early(self._state.table, compiled(self._state, sig)):
            return _preemption(message=NOT_FOUND)
        if not profile.makes_room:
            return nobody()
        if spec.never_preempts:
            return nobody(NEVER)
        if self._is_waited_for(spec, node):
            return nobody(STILL_LEAVING)
        asked = DryRunAsked(1, self._asked, sig, self._left, named=self._counted)
        answer = all_found(self._state, asked)
        found: Sequence[Candidate] = answer.candidates
        if not found:
            return _preemption(message=message([answer]))
        names = {one.node: self._state.nodes[one.node].name for one in found}
        told = {names[one.node]: self._candidate(one) for one in found}
        # Extenders have a say in what DefaultPreemption found, and in nothing else.
        if not is_own(self._state, answer, sig) and any(
            one.preempts(pod) for one in self._extenders
        ):
            found = self._judged(found, names, pod)
        if not found:
            return nobody(f"preemption: {NOBODY_LEFT}")
        best = min((Choice(0, one, one.violations) for one in found), key=order).candidate
        victims = [self._placed[number - 1].pod for number in unpack(best.victims).tolist()]
        return _preemption(
            told,
            names[best.node],
            evicted=[f"{one.namespace}/{one.name}" for one in victims if not one.terminating],
        )

    def _judged(
        self, found: Sequence[Candidate], names: Mapping[int, str], pod: Mapping[str, Any]
    ) -> list[Candidate]:
        """What extenders leave of them, or make of them."""
        uids = [uid_of(one.pod) for one in self._placed]
        numbers = {uid: number for number, uid in enumerate(uids, start=1)}
        there: dict[str, list[str]] = {name: [] for name in self._names}
        for one, uid in zip(self._placed, uids, strict=True):
            there[one.pod.node].append(uid)
        objects = {
            uid: _with_uid(self._pod_objects[one.pod.namespace, one.pod.name], uid)
            for one, uid in zip(self._placed, uids, strict=True)
        }
        told = {
            names[one.node]: Victims(
                tuple(uids[number - 1] for number in unpack(one.victims).tolist()), one.violations
            )
            for one in found
        }
        left = asyncio.run(judge_victims(self._extenders, pod, told, objects, there))
        # Of equals the first that was found is taken, as in a run: extenders' order says nothing.
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

    def _victim(self, number: int) -> Victim:
        ledger = self._state.ledger
        start_ms = int(ledger.start_ms[number - ledger.base])
        return Victim(number, 0, 0, self._placed[number - 1].pod.spec.priority, start_ms)

    def _is_waited_for(self, spec: PodSpec, node: str) -> bool:
        """Whether somebody is ending for the pod on the node that it is nominated for, unless the
        end of others could not help it there any more.
        """
        leaving = [
            one for one in self._placed if one.preempted and one.pod.spec.priority < spec.priority
        ]
        row = self._state.table.row_named(node)
        if row is None or not any(one.pod.node == node for one in leaving):
            return False
        held = held_against(self._state, spec.priority)
        rows = self._state.kernel.resolvable_rows(
            self._state.table, compiled(self._state, self._sig(spec)), held
        )
        return row in rows

    def _candidate(self, candidate: Candidate) -> dict[str, Any]:
        victims = [self._placed[number - 1].pod for number in unpack(candidate.victims).tolist()]
        names = [f"{victim.namespace}/{victim.name}" for victim in victims]
        return {"victims": names, "violations": candidate.violations}

    def _fit_error(self, sig: Signature, held: Held) -> str:
        table = self._state.table
        return fit_error(reasons(table, sig, held).messages, table.size)


def _with_uid(pod: Mapping[str, Any], uid: str) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "uid": uid}}


def _preemption(
    found: dict[str, Any] | None = None,
    best: str = "",
    message: str = "",
    evicted: Sequence[str] = (),
) -> dict[str, Any]:
    """What PostFilter says; who is ending anyway is not told to go again."""
    return {"candidates": found or {}, "best": best, "message": message} | {
        "evicted": sorted(evicted)
    }


def _best(totals: Mapping[str, int]) -> list[str]:
    highest = max(totals.values(), default=0)
    return sorted(name for name, total in totals.items() if total == highest)


def _assert_same(answer: dict[str, Any], pick: Pick | None) -> None:
    """What is explained is what would be decided. Raises WorldError where a plugin of users gave
    two answers to one question.
    """
    totals = [one["total"] for one in answer["nodes"].values() if one["feasible"]]
    decided = (0, 0) if pick is None else (pick.feasible, pick.total)
    if decided == (len(totals), max(totals, default=0)):
        return
    assert PLUGINS, f"explained {totals}, decided {pick}"
    rule = "gave two answers to one question: does it remember something? A replay would differ"
    raise WorldError(f"--plugin {', '.join(sorted(PLUGINS))}", "", rule)


def _failed(text: str, resolvable: bool) -> dict[str, Any]:
    """What an extender said against a node."""
    code = UNSCHEDULABLE if resolvable else UNRESOLVABLE
    return {"feasible": False, "code": code, "plugin": "", "reasons": [text]} | {
        "scores": {},
        "total": 0,
    }


def _is_left_out(report: NodeReport) -> bool:
    """Whether PreFilter keeps the pod from the node, so that no search comes to it."""
    return NAMED_NODES.message in report.messages


def _pre_filter_status(refusal: tuple[str, str] | None) -> dict[str, Any]:
    if refusal is None:
        return {"code": SUCCESS, "reasons": [], "plugin": ""}
    return _rejected(*refusal)


def _rejected(plugin: str, message: str) -> dict[str, Any]:
    return {"code": UNRESOLVABLE, "reasons": [message], "plugin": plugin}


def _node(report: NodeReport) -> dict[str, Any]:
    if report.plugin:
        return {
            "feasible": False,
            "code": UNSCHEDULABLE if report.resolvable else UNRESOLVABLE,
            # PreFilter left these nodes out, and kube-scheduler names nobody for it.
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
