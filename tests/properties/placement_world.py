"""Random worlds for one shard: every kind of input, in orders that only several journals give.

`Driver` draws inputs from a seeded generator and keeps a second set of books, against which every
decision is checked. Run as a program it prints a digest of the shard's decisions.
"""

import hashlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from services.placement.core.core import PlacementCore
from shared.events.base import Configured, Event
from shared.events.binding import BindFailed, Bound
from shared.events.ingest import (
    BudgetCovers,
    BudgetGone,
    NodesGone,
    NodesSet,
    PodsAssigned,
    PodsGone,
    SignatureDefined,
    SignatureRetired,
)
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked, OfferAsked
from shared.events.placement import GangHeld, Nominated, NominationLost, Refused, Reserved
from shared.events.preemption import BudgetLeft, DryRunAsked, NominateAsked, NominationCleared
from shared.events.queueing import Dispatched, Members
from shared.model.columns import pack, size, unpack, unpack_totals
from shared.model.ids import INGEST, Position
from tests.properties.placement_books import Books, devices_of, make_node, make_spec

_encoder = msgspec.msgpack.Encoder(order="deterministic")


def wire(value: Any) -> bytes:
    return _encoder.encode(value)


class Driver(Books):
    """Draws inputs; `core` decides; `log` holds every decided event, in order."""

    def __init__(self, seed: int, reload_chance: float = 0.0, **config: Any) -> None:
        self.rng = random.Random(seed)
        self.reload_rng = random.Random(seed + 1)
        self.reload_chance = reload_chance
        self.core = PlacementCore(0)
        self.state = self.core.new()
        self.log: list[Event] = []
        super().__init__()
        self.next = {"pod": 1, "node": 1, "sig": 1, "attempt": 1, "gang": 1, "ask": 1}
        self.evolve(Configured({"placement": config}))

    def number(self, what: str) -> int:
        self.next[what] += 1
        return self.next[what] - 1

    # --------------------------------------------------------------------------- the machine

    def evolve(self, event: Event) -> None:
        self.core.evolve(self.state, event)

    def run(self) -> None:
        """Run steps until no work is left."""
        for _ in range(2_000):
            for event in self.core.decide(self.state):
                self.core.evolve(self.state, event)
                self.log.append(event)
                self.note(event)
            due_ms = self.core.due_ms(self.state)
            if due_ms is None or due_ms > self.state.now_ms:
                break
        else:
            raise AssertionError("the shard never comes to rest")

    def maybe_reload(self) -> None:
        if self.reload_rng.random() < self.reload_chance:
            body = wire(self.core.dump(self.state))
            twin = self.core.load(msgspec.msgpack.decode(body))
            twin.now_ms, twin.cursors = self.state.now_ms, self.state.cursors
            assert wire(self.core.dump(twin)) == body
            self.state = twin

    def play(self, steps: int) -> "Driver":
        operations = self.operations()
        names = [name for name, _weight, _run in operations]
        weights = [weight for _name, weight, _run in operations]
        runs = {name: run for name, _weight, run in operations}
        for _ in range(4):
            self.add_node()
            self.define()
        for _ in range(steps):
            self.state.now_ms += self.rng.choice([0, 1, 50])
            world = self.state.cursors[INGEST]
            world.next = Position(world.next + 1)
            runs[self.rng.choices(names, weights)[0]]()
            self.maybe_reload()
            if self.rng.random() < 0.6:
                self.run()
                self.core.check(self.state)
            self.maybe_reload()
        self.run()
        self.core.check(self.state)
        while self.unsettled:
            self.settle()
        assert not self.state.unsettled
        assert sorted(self.state.nodes) == sorted(self.nodes), "a node is withheld for ever"
        self.run()
        self.core.check(self.state)
        return self

    # --------------------------------------------------------------------------- inputs

    def operations(self) -> list[tuple[str, int, Callable[[], None]]]:
        return [
            ("dispatch", 14, self.dispatch),
            ("add_node", 2, self.add_node),
            ("change_node", 2, self.change_node),
            ("drop_node", 1, self.drop_node),
            ("remake_node", 2, self.remake_node),
            ("settle", 3, self.settle),
            ("define", 2, self.define),
            ("define_late", 1, self.define_late),
            ("retire", 1, self.retire),
            ("confirm", 6, self.confirm),
            ("foreign", 2, self.foreign),
            ("stray", 1, self.stray),
            ("gone", 6, self.gone),
            ("bound", 4, self.bound),
            ("bind_failed", 4, self.bind_failed),
            ("offer", 1, self.offer),
            ("hold", 3, self.hold),
            ("commit", 2, self.commit),
            ("release", 2, self.release),
            ("dry_run", 4, self.dry_run),
            ("nominate", 3, self.nominate),
            ("clear", 1, self.clear),
            ("budget", 1, self.budget),
        ]

    def some(self, pods: list[int], most: int = 3) -> list[int]:
        return self.rng.sample(pods, min(len(pods), self.rng.randint(1, most))) if pods else []

    def define(self) -> None:
        sig = self.number("sig")
        self.specs[sig] = make_spec(self.rng)
        self.define_pending()
        self.defined.add(sig)
        self.evolve(SignatureDefined(sig, self.specs[sig]))

    def define_late(self) -> None:
        """Send a dispatch or an ask before its signature."""
        sig = self.number("sig")
        self.specs[sig] = make_spec(self.rng)
        self.dispatch(sig)

    def define_pending(self) -> None:
        for sig in sorted(set(self.specs) - self.defined):
            if sig != max(self.specs):
                self.defined.add(sig)
                self.evolve(SignatureDefined(sig, self.specs[sig]))

    def retire(self) -> None:
        idle = sorted(self.defined - set(self.pods.values()) - set(self.asks.values()))
        if len(self.defined) > 3 and idle:
            sig = self.rng.choice(idle)
            self.defined.discard(sig)
            self.evolve(SignatureRetired(sig))

    def new_pods(self, sig: int, count: int) -> list[int]:
        pods = [self.number("pod") for _ in range(count)]
        self.pods.update(dict.fromkeys(pods, sig))
        return pods

    def dispatch(self, sig: int | None = None) -> None:
        """Dispatch new pods, and sometimes pods that are free again or were refused."""
        if sig is None:
            if not self.defined:
                return
            sig = self.rng.choice(sorted(self.defined))
        pods = self.new_pods(sig, self.rng.choice([1, 1, 2, 5, 12]))
        free = [p for p, s in sorted(self.pods.items()) if s == sig and self.is_free(p)]
        pods = sorted({*pods, *self.some(free)})
        again = [p for p, (_, kind) in sorted(self.on.items()) if kind == "failed"]
        pods += [p for p in again if self.pods[p] == sig and p not in self.open]
        self.open.update(pods)
        urgent = self.rng.random() < 0.2
        self.evolve(Dispatched(self.number("attempt"), 0, sig, pack(pods), urgent))

    def is_free(self, pod: int) -> bool:
        return pod not in self.open and pod not in self.on

    def add_node(self) -> None:
        many = {self.number("node"): None for _ in range(self.rng.choice([1, 2]))}
        nodes = {number: make_node(self.rng, number) for number in many}
        self.nodes.update(nodes)
        self.evolve(NodesSet(0, pack(nodes), tuple(nodes.values())))

    def change_node(self) -> None:
        if self.nodes:
            number = self.rng.choice(sorted(self.nodes))
            self.nodes[number] = make_node(self.rng, number, self.nodes[number].name)
            self.evolve(NodesSet(0, pack([number]), (self.nodes[number],)))

    def drop_node(self) -> None:
        if len(self.nodes) > 2:
            self.drop(self.rng.choice(sorted(self.nodes)))

    def drop(self, number: int) -> str:
        name = self.nodes.pop(number).name
        for pod, kind in [(p, kind) for p, (at, kind) in self.on.items() if at == number]:
            del self.on[pod]
            if kind in ("reserved", "held", "bound"):
                self.unsettled[pod] = (number, name)
        self.evolve(NodesGone(0, pack([number])))
        return name

    def remake_node(self) -> None:
        """Delete a node, usually one with pods, and create it again, usually at once."""
        carry = sorted({at for at, kind in self.on.values() if kind != "assigned"})
        chosen = carry if carry and self.rng.random() < 0.8 else sorted(self.nodes)
        chosen = [number for number in chosen if number in self.nodes]
        if chosen:
            name = self.drop(self.rng.choice(chosen))
            if self.rng.random() < 0.3:
                self.run()
            number = self.number("node")
            self.nodes[number] = make_node(self.rng, number, name)
            self.evolve(NodesSet(0, pack([number]), (self.nodes[number],)))

    def settle(self) -> None:
        """Settle a bind to a deleted node."""
        if not self.unsettled:
            return
        pod = self.rng.choice(sorted(self.unsettled))
        at, name = self.unsettled.pop(pod)
        same = [number for number, node in sorted(self.nodes.items()) if node.name == name]
        how = self.rng.choice(["abandoned", "foreign", "gone", "deleted", "elsewhere", "landed"])
        held = any(pod in pods for pods in self.holds.values())
        if how in ("abandoned", "foreign") or held:
            self.evolve(BindFailed(pack([pod]), "abandoned" if held else how, pack([at])))
        elif how == "gone" and pod not in self.on:
            self.evolve(BindFailed(pack([pod]), how, pack([at])))
        elif how == "landed" and same:
            self.evolve(Bound(pack([pod]), pack([at])))
            self.assign([(pod, self.pods[pod], same[0])])
        elif how == "elsewhere" and pod not in self.on:
            sigs = pack([self.pods[pod]])
            self.evolve(PodsAssigned(1, pack([pod]), sigs, pack([99_999])))
        else:
            self.forget([pod])

    def assign(self, triples: list[tuple[int, int, int]]) -> None:
        if triples:
            ids, sigs, nodes = (pack(column) for column in zip(*triples, strict=True))
            for pod, _sig, node in triples:
                self.on[pod] = (node, "assigned")
                self.open.discard(pod)
                self.unsettled.pop(pod, None)
            self.evolve(PodsAssigned(0, ids, sigs, nodes))

    def confirm(self) -> None:
        """Show reserved pods in the watch, usually on the reserved node."""
        chosen = self.some(sorted(p for p, (_, k) in self.on.items() if k != "assigned"), 5)
        triples = []
        for pod in chosen:
            node, _kind = self.on[pod]
            if self.rng.random() < 0.2:
                node = self.rng.choice(sorted(self.nodes))
            triples.append((pod, self.pods[pod], node))
        self.assign(triples)

    def foreign(self) -> None:
        if self.defined and self.nodes:
            sig = self.rng.choice(sorted(self.defined))
            pods = self.new_pods(sig, self.rng.randint(1, 3))
            waiting = self.some([p for p in sorted(self.open) if self.pods[p] in self.defined], 1)
            nodes = sorted(self.nodes)
            self.assign([(p, self.pods[p], self.rng.choice(nodes)) for p in (*pods, *waiting)])

    def stray(self) -> None:
        """Assign pods to a node that comes later, or never."""
        if self.defined:
            sig = self.rng.choice(sorted(self.defined))
            number = self.next["node"] + self.rng.randint(0, 2)
            self.assign([(pod, sig, number) for pod in self.new_pods(sig, 1)])

    def gone(self) -> None:
        self.forget(self.some(sorted(self.pods), 4))

    def forget(self, pods: list[int]) -> None:
        for pod in pods:
            self.unsettled.pop(pod, None)
            del self.pods[pod]
            self.on.pop(pod, None)
            self.open.discard(pod)
        self.evolve(PodsGone(pack(pods)))

    def of_kind(self, *kinds: str) -> list[int]:
        return [p for p, (_, kind) in sorted(self.on.items()) if kind in kinds]

    def bound(self) -> None:
        pods = self.some(self.of_kind("reserved", "assigned"), 6)
        nodes = [self.on[pod][0] for pod in pods]
        for pod in pods:
            if self.on[pod][1] == "reserved":
                self.on[pod] = (self.on[pod][0], "bound")
        self.evolve(Bound(pack(pods), pack(nodes)))

    def bind_failed(self) -> None:
        pods = self.some(self.of_kind("reserved", "assigned"), 3)
        nodes = [self.on[pod][0] for pod in pods]
        for pod in pods:
            if self.on[pod][1] == "reserved":
                self.on[pod] = (self.on[pod][0], "failed")
        # A pod that is no longer ours, and one that this shard never had.
        others = [self.next["pod"] + 1_000, *self.some(self.of_kind("reserved"), 1)]
        columns = (
            pack([*pods, *others]),
            "abandoned",
            pack([*nodes, 9_999, 9_999][: len(pods) + len(others)]),
        )
        self.evolve(BindFailed(*columns))

    def members(self) -> tuple[Members, ...]:
        sigs = self.some(sorted(self.defined), 2)
        return tuple(Members(s, pack(self.new_pods(s, self.rng.randint(1, 4)))) for s in sigs)

    def offer(self) -> None:
        self.evolve(OfferAsked(self.number("gang"), self.number("attempt"), self.members()))

    def hold(self) -> None:
        gang, attempt = self.number("gang"), self.number("attempt")
        self.evolve(HoldAsked(gang, attempt, 0, self.members()))
        if self.rng.random() < 0.2:
            self.evolve(GangReleased(gang, attempt, (), 0))

    def commit(self) -> None:
        if self.holds:
            key = self.rng.choice(sorted(self.holds))
            members = self.holds.pop(key)
            held = [p for p in members if self.on.get(p, (0, ""))[1] == "held"]
            kept = held[: max(1, len(held) - self.rng.randint(0, 1))]
            lost = [p for p in members if p in self.unsettled and p not in self.on]
            sent = self.some(lost)
            for pod in lost:
                if pod not in sent:
                    del self.unsettled[pod]
            for pod in held:
                if pod in kept:
                    self.on[pod] = (self.on[pod][0], "reserved")
                else:
                    del self.on[pod]
            nodes = [self.on[pod][0] for pod in kept] + [self.unsettled[pod][0] for pod in sent]
            self.evolve(GangCommitted(*key, pack([*kept, *sent]), pack(nodes)))

    def release(self) -> None:
        if self.holds:
            key = self.rng.choice(sorted(self.holds))
            for pod in self.holds.pop(key):
                if self.on.get(pod, (0, ""))[1] == "held":
                    del self.on[pod]
                else:
                    self.unsettled.pop(pod, None)
            late = self.rng.random() < 0.5
            self.evolve(GangTimedOut(*key) if late else GangReleased(*key, (), 0))

    def dry_run(self) -> None:
        high = [s for s in sorted(self.defined) if self.specs[s].priority > 0]
        if high:
            sig, ask = self.rng.choice(high), self.number("ask")
            free = [p for p, s in sorted(self.pods.items()) if s == sig and self.is_free(p)]
            pod = self.rng.choice(free) if free else self.new_pods(sig, 1)[0]
            self.asks[ask] = sig
            taken = (
                pack(self.some(self.of_kind("bound", "assigned"), 2))
                if self.rng.random() < 0.3
                else b""
            )
            self.evolve(DryRunAsked(ask, pod, sig, (BudgetLeft(1, 1), BudgetLeft(2, 0)), taken))

    def nominate(self) -> None:
        if self.found:
            ask, pod, sig, node, victims = self.found.pop()
            self.evolve(NominateAsked(ask, pod, sig, 0, node, victims))
            if pod in self.pods and self.is_free(pod) and self.rng.random() < 0.7:
                self.run()
                for victim in unpack(victims).tolist():
                    if self.rng.random() < 0.9 and self.pods.pop(victim, 0):
                        self.on.pop(victim, None)
                        self.unsettled.pop(victim, None)
                        self.evolve(PodsGone(pack([victim])))
                self.run()
                if self.is_free(pod):
                    self.open.add(pod)
                    self.evolve(Dispatched(self.number("attempt"), 0, sig, pack([pod]), True))

    def clear(self) -> None:
        nominated = [e for e in self.log if isinstance(e, Nominated)]
        if nominated:
            event = self.rng.choice(nominated)
            self.evolve(NominationCleared(event.ask, event.pod, 0))

    def budget(self) -> None:
        pods = self.some(sorted(self.pods), 6)
        self.evolve(BudgetCovers(self.rng.choice([1, 2]), pack(pods)))
        if self.rng.random() < 0.1:
            self.evolve(BudgetGone(2))


def decisions(log: list[Event]) -> Iterator[tuple[Any, ...]]:
    """Yield Reserved and Refused pod by pod: batching must not change them."""
    for event in log:
        if isinstance(event, Reserved):
            columns = (
                unpack(event.ids),
                unpack(event.nodes),
                unpack_totals(event.totals, size(event.ids)),
            )
            for pod, node, total, mask in zip(
                *(c.tolist() for c in columns), devices_of(event), strict=True
            ):
                yield ("reserved", event.attempt, event.sig, pod, node, total, mask, event.world)
        elif isinstance(event, Refused):
            for pod in unpack(event.ids).tolist():
                why = (event.reasons, event.resolvable, event.preemptible, event.nodes)
                yield ("refused", event.attempt, event.sig, pod, why, event.world)
        elif isinstance(event, GangHeld | NominationLost):
            yield ("other", wire(event))


def fingerprint(seeds: int, steps: int) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for seed in range(seeds):
        driver = Driver(seed).play(steps)
        digest.update(wire(driver.log))
        digest.update(wire(driver.core.dump(driver.state)))
    return digest.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(fingerprint(int(sys.argv[1]), int(sys.argv[2])) + "\n")
