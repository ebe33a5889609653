"""Checks binds: one decision per bind, one definite outcome per decision, none given up too early.

Replays binding's journal against the rules of effects (ARCHITECTURE.md, One turn, rule 5) and keeps
its own record of requests and answers.
"""

from dataclasses import dataclass, field

from muster.checker.filters.volumes import Writes
from muster.checker.inputs.journals import Journal, Problem, Step
from shared.events.base import Event
from shared.events.binding import (
    BindFailed,
    BindsAsked,
    Bound,
    FencesAsked,
    ReadsAsked,
    VolumesAsked,
    VolumesGranted,
    VolumesOver,
)
from shared.events.ingest import NodesSet, PodsAssigned, PodsGone
from shared.events.observed import BindAnswers
from shared.events.permit import GangCommitted
from shared.events.placement import Reserved, VolumesBound, VolumesChosen
from shared.model.api_outcome import Answer
from shared.model.columns import unpack

UNASSIGNED = -1
"""In an answer's `nodes`; any other value that is no node of the mesh means some other node."""


@dataclass
class Decision:
    """An open decision to bind a pod to a node, and the evidence about its outcome so far.

    `volumes`: the pod's volumes must be bound first. `out`: a POST has no answer yet. `maybe`: an
    earlier POST may still land.
    """

    node: int
    position: int
    volumes: bool = False
    asked: bool = False
    out: bool = False
    maybe: bool = False
    done: bool = False
    fenced: bool = False
    gone: bool = False
    unknown: bool = False
    read: int = 0


@dataclass
class Settled:
    """The outcome of a decision."""

    node: int
    outcome: str
    position: int
    unknown: bool


@dataclass
class Binds:
    """Decisions, outcomes and requests in binding's journal, with the violations found."""

    open: dict[int, Decision] = field(default_factory=dict)
    settled: dict[int, list[Settled]] = field(default_factory=dict)
    facts: dict[int, int] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    names: dict[int, str] = field(default_factory=dict)
    effects: dict[int, tuple[str, dict[int, int]]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    shards: set[str] = field(default_factory=set)
    writes: Writes = field(default_factory=Writes)

    def blame(self, rule: str, position: int, text: str) -> None:
        """Add a violation."""
        self.problems.append((rule, f"binding/0 at {position}: {text}"))

    def same_name(self, node: int, other: int) -> bool:
        """Return whether a bind to one node may land on the other: a bind names its node
        by name.
        """
        return node == other or self.names.get(node, "") == self.names.get(other)


def replay(journal: Journal) -> Binds:
    """Replay binding's whole journal."""
    books = Binds()
    for step in journal.steps:
        if step.record.claim is not None:
            # The previous owner may still send its open requests.
            for decision in books.open.values():
                decision.maybe = decision.maybe or decision.out
        for source, _position, event in step.inputs:
            if isinstance(event, Reserved | VolumesChosen):
                books.shards.add(source)
                books.writes.reserved(event)
            _consume(books, event, step)
        for event in step.received:
            if isinstance(event, BindAnswers):
                _answers(books, event)
        for event in step.own:
            _decide(books, event, step)
    return books


def _consume(books: Binds, event: Event, step: Step) -> None:
    match event:
        case Reserved() | GangCommitted() | VolumesChosen():
            columns = zip(unpack(event.ids).tolist(), unpack(event.nodes).tolist(), strict=True)
            later: list[int] = []
            if isinstance(event, GangCommitted):
                later = unpack(event.with_volumes).tolist()
            for pod, node in columns:
                if pod in later:
                    continue
                before = books.open.get(pod)
                if before is not None:
                    books.blame(
                        "one-decision",
                        step.position,
                        f"pod {pod} decided for node {node}, still open for node {before.node}",
                    )
                waits = not isinstance(event, GangCommitted) and bool(event.volumes)
                books.open[pod] = Decision(node, step.position, waits)
        case VolumesBound():
            columns = zip(unpack(event.ids).tolist(), unpack(event.nodes).tolist(), strict=True)
            for pod, node in columns:
                before = books.open.get(pod)
                if before is not None and before.node == node:
                    before.volumes = False
                    books.writes.over([pod])
        case PodsAssigned():
            columns = zip(unpack(event.ids).tolist(), unpack(event.nodes).tolist(), strict=True)
            books.facts.update(columns)
        case NodesSet():
            for node, value in zip(unpack(event.ids).tolist(), event.nodes, strict=True):
                books.names[node] = value.name
        case PodsGone():
            books.gone.update(unpack(event.ids).tolist())
        case _:
            pass


def _answers(books: Binds, event: BindAnswers) -> None:
    kind, asked = books.effects.get(event.effect, ("", {}))
    pods, codes = unpack(event.ids).tolist(), list(event.codes)
    nodes = unpack(event.nodes).tolist() if event.nodes else [UNASSIGNED] * len(pods)
    for pod, code, node in zip(pods, codes, nodes, strict=True):
        decision = books.open.get(pod)
        if decision is None or pod not in asked:
            continue
        if code == Answer.GONE:
            decision.gone = True
        if code == Answer.UNKNOWN and kind == "bind":
            decision.unknown = decision.maybe = True
        if code == Answer.BUSY and kind == "bind":
            decision.out = False
        if code == Answer.STALE and kind == "bind":
            # The pod has a new resourceVersion: no POST sent so far can land.
            decision.out = decision.maybe = False
        if code == Answer.DONE and kind == "bind" and asked[pod] == decision.node:
            decision.done = True
        if code == Answer.DONE and kind in ("read", "fence") and node != UNASSIGNED:
            decision.read = node
        elif code == Answer.DONE and kind == "fence":
            decision.fenced = True


def _decide(books: Binds, event: Event, step: Step) -> None:
    match event:
        case BindsAsked():
            _asked(books, event, step)
        case ReadsAsked():
            books.effects[event.effect] = ("read", dict.fromkeys(unpack(event.ids).tolist(), 0))
        case FencesAsked():
            books.effects[event.effect] = ("fence", dict.fromkeys(unpack(event.ids).tolist(), 0))
        case VolumesGranted():
            books.writes.promised[event.number] = event.pod
        case VolumesOver():
            for number in unpack(event.numbers).tolist():
                books.writes.promised.pop(number, None)
        case VolumesAsked():
            for text in books.writes.asked(unpack(event.ids).tolist()):
                if len(books.shards) > 1:
                    books.blame("one-claim-per-volume", step.position, text)
        case Bound():
            _bound(books, event, step)
        case BindFailed():
            _failed(books, event, step)
        case _:
            pass


def _asked(books: Binds, event: BindsAsked, step: Step) -> None:
    pods, nodes = unpack(event.ids).tolist(), unpack(event.nodes).tolist()
    books.effects[event.effect] = ("bind", dict(zip(pods, nodes, strict=True)))
    for pod, node in zip(pods, nodes, strict=True):
        decision = books.open.get(pod)
        if decision is None or decision.node != node:
            books.blame(
                "one-decision-per-bind", step.position, f"pod {pod} bound to {node} undecided"
            )
            continue
        if decision.fenced:
            books.blame(
                "fence", step.position, f"pod {pod}: bind to {node} asked again after its fence"
            )
        if decision.volumes:
            books.blame("bound-before", step.position, f"pod {pod} bound before its volumes")
        decision.asked = decision.out = True


def _settle(books: Binds, pod: int, node: int, outcome: str, step: Step) -> Decision | None:
    decision = books.open.pop(pod, None)
    books.writes.over([pod])
    if decision is None:
        last = books.settled.get(pod, [])
        books.blame(
            "one-outcome", step.position, f"pod {pod}: {outcome} without a decision, before: {last}"
        )
        return None
    books.settled.setdefault(pod, []).append(
        Settled(decision.node, outcome, step.position, decision.unknown)
    )
    if node and node != decision.node:
        books.blame(
            "one-outcome", step.position, f"pod {pod}: {outcome} {node}, decided {decision.node}"
        )
    return decision


def _bound(books: Binds, event: Bound, step: Step) -> None:
    columns = zip(unpack(event.ids).tolist(), unpack(event.nodes).tolist(), strict=True)
    for pod, node in columns:
        decision = _settle(books, pod, node, "bound", step)
        if decision is None:
            continue
        fact = books.same_name(node, books.facts.get(pod, 0))
        proofs = (decision.done, decision.read == node, fact)
        if not any(proofs):
            books.blame("definite", step.position, f"pod {pod}: bound to {node} without proof")


def _failed(books: Binds, event: BindFailed, step: Step) -> None:
    nodes = unpack(event.nodes).tolist() if event.nodes else [0] * (len(event.ids) // 8)
    for pod, node in zip(unpack(event.ids).tolist(), nodes, strict=True):
        decision = _settle(books, pod, node, event.reason, step)
        if decision is None:
            continue
        if not _justified(books, decision, pod, event.reason):
            books.blame(
                "definite", step.position, f"pod {pod}: {event.reason} without proof: {decision}"
            )


def _justified(books: Binds, decision: Decision, pod: int, reason: str) -> bool:
    fact = books.facts.get(pod)
    match reason:
        case "gone":
            return decision.gone or pod in books.gone
        case "foreign":
            # A bind of ours that landed is ours, even if another node has the name by now.
            shown = [node for node in (decision.read, fact) if node]
            if decision.asked:
                return any(not books.same_name(decision.node, node) for node in shown)
            return any(node != decision.node for node in shown)
        case "refused":
            return not (decision.asked or decision.out or decision.maybe)
        case "abandoned" | "failed":
            return decision.fenced or not (decision.out or decision.maybe)
        case _:
            return False


def at_rest(books: Binds) -> None:
    """Add a violation for every decision without an outcome."""
    for pod, decision in sorted(books.open.items()):
        books.blame("one-outcome", -1, f"pod {pod}: decision for {decision.node} never settled")
    for pod in sorted(books.writes.promised.values()):
        books.blame("conservation", -1, f"pod {pod} is promised volumes for ever")
