"""Each placement shard's books, kept a second time: the facts that it had at each decision.

Facts are those of the world journal that the deciding record had consumed; requests are those of
the pods in etcd.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.model.ids import JournalName
from tests.live.checker.fits import Amounts
from tests.live.checker.journals import Entry, Event, Journals, column

WORLD = "ingest/0"


@dataclass(frozen=True)
class Decision:
    """A node chosen for a pod, and the other pods that were known to be on it."""

    uid: str
    node: str
    time_s: float
    where: str
    known: frozenset[str]


@dataclass
class Books:
    """One shard: node id -> name and allocatable; pod id -> its node's name."""

    journal: JournalName
    uids: Mapping[int, str]
    asked: Mapping[str, Amounts]
    names: dict[int, str] = field(default_factory=dict)
    has: dict[str, dict[str, int]] = field(default_factory=dict)
    # Pod id -> node, of facts and of our own decisions until the fact is there.
    place: dict[int, str] = field(default_factory=dict)
    facts: set[int] = field(default_factory=set)
    on: dict[str, set[str]] = field(default_factory=dict)
    used: dict[str, Amounts] = field(default_factory=dict)
    held: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    # When the shard learned of a pod on a node: uid -> time.
    told_s: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def consume(self, source: str, event: Event, entry: Entry) -> None:
        """Apply an event that the shard consumed."""
        kind = event["type"]
        if source == WORLD:
            self._world(kind, event, entry)
        elif kind == "bind_failed":
            self._failed(event)
        elif kind == "gang_committed":
            self.held.pop((event["gang"], event["attempt"]), None)
        elif kind in ("gang_released", "gang_timed_out"):
            self._give_back(self.held.pop((event["gang"], event["attempt"]), ()))

    def _failed(self, event: Event) -> None:
        """Remove failed binds to these nodes; the pods may have other nodes by now."""
        if event["reason"] == "gone":
            self._drop(column(event["ids"]))
            return
        nodes = column(event.get("nodes", b""))
        for pod, number in zip(column(event["ids"]), nodes, strict=True):
            if self.place.get(pod) == self.names.get(number):
                self._give_back([pod])

    def _world(self, kind: str, event: Event, entry: Entry) -> None:
        if kind == "nodes_set":
            for number, node in zip(column(event["ids"]), event["nodes"], strict=True):
                self.names[number] = node["name"]
                self.has[node["name"]] = dict(node.get("allocatable", ()))
        elif kind == "nodes_gone":
            for number in column(event["ids"]):
                self.has.pop(self.names.get(number, ""), None)
        elif kind == "pods_assigned":
            for pod, number in zip(column(event["ids"]), column(event["nodes"]), strict=True):
                self._take(pod)
                self._put(pod, self.names[number])
                self.facts.add(pod)
                self.told_s.setdefault(self.uids[pod], entry.time_s)
        elif kind == "pods_gone":
            self._drop(column(event["ids"]))

    def _drop(self, pods: Iterable[int]) -> None:
        for pod in pods:
            self._take(pod)
            self.facts.discard(pod)

    def _give_back(self, pods: Iterable[int]) -> None:
        for pod in pods:
            if pod not in self.facts:
                self._take(pod)

    def _put(self, pod: int, name: str) -> None:
        uid = self.uids[pod]
        self.place[pod] = name
        self.on.setdefault(name, set()).add(uid)
        self.used.setdefault(name, Counter()).update(self.asked.get(uid, {}))

    def _take(self, pod: int) -> None:
        name, uid = self.place.pop(pod, None), self.uids[pod]
        if name is not None:
            self.on[name].remove(uid)
            self.used[name].subtract(self.asked.get(uid, {}))

    def decide(self, event: Event, entry: Entry) -> None:
        """Apply and check a decision of the shard."""
        match event["type"]:
            case "released":
                self._give_back(column(event["ids"]))
            case "gang_held":
                key = (event["gang"], event["attempt"])
                self.held.setdefault(key, set()).update(column(event["ids"]))
                self._reserve(event, entry)
            case "reserved":
                self._reserve(event, entry)

    def _reserve(self, event: Event, entry: Entry) -> None:
        where = f"{self.journal} at {entry.position}"
        for pod, number in zip(column(event["ids"]), column(event["nodes"]), strict=True):
            uid, name = self.uids[pod], self.names.get(number, "")
            if name not in self.has:
                self.problems.append(f"{where}: pod {uid} on node #{number} that is not there")
                continue
            if uid not in self.asked:
                self.problems.append(f"{where}: pod {uid} was never stored")
                continue
            if pod in self.place:
                self.problems.append(f"{where}: pod {uid} decided again while it has a node")
                self._take(pod)
            known = frozenset(self.on.get(name, ()))
            self.decisions.append(Decision(uid, name, entry.time_s, where, known))
            self._put(pod, name)
            self._check(where, uid, name, self.used[name], self.asked[uid])

    def _check(self, where: str, uid: str, name: str, used: Amounts, asked: Amounts) -> None:
        """Check a decision. The journal has base units (cpu in milli), this module thousandths."""
        for what in asked:
            scale = 1 if what == "cpu" else 1000
            has = self.has[name].get(what, 0) * scale
            if used[what] > has:
                self.problems.append(
                    f"{where}: pod {uid} over-fills node {name} as it was known: "
                    f"{what} {used[what] / 1000:g} of {has / 1000:g}"
                )


def uids_of(journals: Journals) -> dict[int, str]:
    """Return pod id -> uid for every pod that the world journal names."""
    found: dict[int, str] = {}
    for entry in journals.get(WORLD, ()):
        for event in entry.of("pods_named"):
            found.update(zip(column(event["ids"]), event["uids"].split("\n"), strict=True))
    return found


def keep(journals: Journals, asked: Mapping[str, Amounts]) -> list[Books]:
    """Return the books of every shard."""
    uids = uids_of(journals)
    return [
        _run(Books(JournalName(name), uids, asked), journals)
        for name in sorted(journals)
        if name.startswith("placement/")
    ]


def _run(books: Books, journals: Journals) -> Books:
    rows: dict[str, int] = {}
    for entry in journals[books.journal]:
        for source, _start, stop in entry.consumed:
            known = journals.get(source, [])
            row = rows.get(source, 0)
            while row < len(known) and known[row].position < stop:
                for event in known[row].events:
                    if _is_for(books.journal, event):
                        books.consume(source, event, entry)
                row += 1
            rows[source] = row
        for event in entry.events:
            books.decide(event, entry)
    return books


def _is_for(journal: JournalName, event: Event) -> bool:
    """Return whether an event is for the shard: nodes and assigned pods go to the node's shard."""
    shard: Any = event.get("shard")
    if event["type"] in ("nodes_set", "nodes_gone", "pods_assigned"):
        return bool(journal == f"placement/{shard}")
    return True
