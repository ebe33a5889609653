"""A model of the mesh around queueing: every journal arrives at its own pace, in its own order.

Shards are lists of nodes with free slots; a signature needs a number of slots on one node. A string
of bytes decides what happens and which journal is read next, so a failing run shrinks. An observer
that knows only events checks the safety rules at every event. It shares no code with the core, and
reads the core's state only for work in flight.
"""

from collections import deque

import msgspec

from services.queueing.core.core import QueueingCore
from services.queueing.core.transitions import Pod
from shared.events.base import Configured, Event
from shared.events.binding import BindFailed, Bound
from shared.events.ingest import (
    GangSet,
    PodsAssigned,
    PodsGone,
    PodsPending,
    SignatureDefined,
    SignaturesQueued,
)
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut
from shared.events.placement import (
    Improved,
    NominationLost,
    NominationReady,
    Refused,
    Reserved,
    ShardDigest,
)
from shared.events.preemption import PreemptionClosed, PreemptionOpened
from shared.events.queueing import Dispatched, GangDispatched, Parked, PreemptAsked, ReasonsAsked
from shared.model.columns import pack
from shared.model.objects import PodSpec
from tests.properties.queueing_observer import PRIORITIES, Observer, ids_of, in_state

SIZES = (1, 2, 3, 5)
encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Shard:
    """Nodes with free slots, what it holds, and the signatures it has refused."""

    def __init__(self, number: int, nodes: list[int]) -> None:
        self.number, self.nodes = number, nodes
        self.held: dict[int, tuple[int, int]] = {}  # pod -> (node, size)
        self.gone: set[int] = set()
        self.refused: set[int] = set()
        self.inbox: deque[Event] = deque()
        self.journal: deque[Event] = deque()

    def fits(self, size: int) -> bool:
        return any(free >= size for free in self.nodes)

    def take(self, pod: int, size: int) -> bool:
        for node, free in enumerate(self.nodes):
            if free >= size:
                self.nodes[node] -= size
                self.held[pod] = (node, size)
                return True
        return False

    def improve(self, node: int) -> None:
        sigs = [sig for sig in sorted(self.refused) if self.nodes[node] >= SIZES[sig % 4]]
        if sigs:
            self.journal.append(Improved(self.number, pack(sigs), 0))

    def release(self, pod: int) -> None:
        if pod in self.held:
            node, size = self.held.pop(pod)
            self.nodes[node] += size
            self.improve(node)

    def read(self, event: Event, fails: bool = False) -> None:
        """`fails`: attempts end with an error."""
        if isinstance(event, PodsGone):
            for pod in ids_of(event.ids):
                self.gone.add(pod)
                self.release(pod)
        elif isinstance(event, ReasonsAsked):
            if event.sig in self.refused and not self.fits(SIZES[event.sig % 4]):
                self.refuse(0, event.sig, [])
        elif isinstance(event, Dispatched) and fails:
            ids = pack([pod for pod in ids_of(event.ids) if pod not in self.gone])
            said = (self.number, event.attempt, event.sig, ids, (), len(self.nodes), 0)
            self.journal.append(Refused(*said, error="it fails"))
        elif isinstance(event, Dispatched):
            size = SIZES[event.sig % 4]
            pods = [pod for pod in ids_of(event.ids) if pod not in self.gone]
            for pod in pods:
                self.release(pod)
            placed = [pod for pod in pods if self.take(pod, size)]
            rest = [pod for pod in pods if pod not in self.held]
            if placed:
                nodes = pack([self.held[pod][0] for pod in placed])
                self.journal.append(
                    Reserved(self.number, event.attempt, event.sig, pack(placed), nodes, b"", 1, 0)
                )
            if rest:
                self.refused.add(event.sig)
                self.refuse(event.attempt, event.sig, rest)

    def refuse(self, attempt: int, sig: int, pods: list[int]) -> None:
        nodes = len(self.nodes)
        reasons, may_help = (("Insufficient slots", nodes),), PRIORITIES[sig % 4] > 0
        self.journal.append(
            Refused(self.number, attempt, sig, pack(pods), reasons, nodes, 0, nodes, may_help)
        )


class World:
    """Queueing and the services around it, driven by bytes."""

    def __init__(
        self,
        script: bytes,
        shards: int = 2,
        config=None,
        reload_at: int = -1,
        plugins: bool = False,
    ) -> None:
        self.core = QueueingCore(shards)
        self.state = self.core.new()
        self.state.now_ms = 1_000
        self.script, self.at, self.reload_at, self.plugins = script, 0, reload_at, plugins
        self.shards = [Shard(number, [6, 4]) for number in range(shards)]
        self.observer = Observer(shards)
        self.ingest: deque[Event] = deque()
        self.permit: deque[Event] = deque()
        self.preemption: deque[Event] = deque()
        self.binding: deque[Event] = deque()
        self.log: list[Event] = []
        self.tape: list[tuple[int, Event]] = []  # everything applied, with its time
        self.next_pod, self.next_ask, self.steps = 1, 1, 0
        self.pods: dict[int, int] = {}  # living pods -> signature
        self.gang_of: dict[int, int] = {}
        self.gated: set[int] = set()  # by gates of their own
        self.tries: deque[GangDispatched] = deque()
        self.asked: deque[int] = deque()
        self.nominations: list[tuple[int, int]] = []
        self.to_bind: deque[tuple[int, int]] = deque()
        self.evolve(Configured({"queueing": config or {}}))
        for sig in range(1, 5):
            spec = PodSpec(priority=PRIORITIES[sig % 4], requests=(("cpu", SIZES[sig % 4]),))
            self.ingest.append(SignatureDefined(sig, spec))

    # ------------------------------------------------------------- drawing

    def draw(self, limit: int) -> int:
        self.at += 1
        return self.script[self.at - 1] % limit if self.at <= len(self.script) else 0

    @property
    def drained(self) -> bool:
        return self.at >= len(self.script)

    def run(self) -> "World":
        actions = [
            *(self.arrive, self.arrive_gang, self.die, self.foreign, self.pass_time),
            *(self.deliver, self.deliver, self.deliver, self.shard_reads, self.shard_reads),
            *(self.bind, self.permit_answers, self.preemption_answers, self.victims_leave),
            *(self.node_joins, self.change),
        ]
        actions += [self.say, self.change] if self.plugins else []
        while not self.drained:
            actions[self.draw(len(actions))]()
        return self

    # ------------------------------------------------------------- actions

    def arrive(self) -> None:
        count, sig = 1 + self.draw(4), 1 + self.draw(4)
        gated = self.draw(8) == 7
        self._pods(sig, count, 0, gated)

    def _pods(self, sig: int, count: int, gang: int, gated: bool = False) -> None:
        ids = list(range(self.next_pod, self.next_pod + count))
        self.next_pod += count
        self.pods.update(dict.fromkeys(ids, sig))
        self.gang_of.update(dict.fromkeys(ids, gang))
        self.gated.update(ids if gated else ())
        self.ingest.append(PodsPending(sig, pack(ids), gang, gated=gated))

    def arrive_gang(self) -> None:
        gang, count = 1 + self.draw(3), 1 + self.draw(3)
        self._pods(1 + self.draw(4), count, gang)
        if self.draw(2):
            version = 1 + self.draw(3)
            self.ingest.append(GangSet(gang, f"default/g{gang}", 1 + self.draw(4), 60_000, version))

    def _some_pod(self) -> int:
        living = sorted(self.pods)
        return living[self.draw(len(living))] if living else 0

    def die(self) -> None:
        pod = self._some_pod()
        if pod:
            self._gone(pod)

    def _gone(self, pod: int) -> None:
        self.pods.pop(pod)
        one = pack([pod])
        self._fact(PodsGone(one, one if self.gang_of.get(pod) and self.draw(2) else b""))

    def _fact(self, event: Event) -> None:
        self.ingest.append(event)
        for shard in self.shards:
            shard.inbox.append(event)

    def foreign(self) -> None:
        """Let another scheduler bind a pod, or a stale fact arrive for a pod that was never
        pending.
        """
        pod = self._some_pod()
        if pod and self.draw(4) == 0:
            self._fact(PodsAssigned(0, pack([pod]), pack([self.pods[pod]]), pack([0])))
            self._fact(PodsGone(pack([pod])))
            self.pods.pop(pod)

    def change(self) -> None:
        """Give a pod another signature, or lift its gates."""
        pod = self._some_pod()
        if pod and not any(pod in shard.held for shard in self.shards):
            sig = 1 + self.draw(4)
            self.pods[pod] = sig
            gang = int(self.state.pods.gang[pod - self.state.pods.base]) if self._met(pod) else 0
            if self._met(pod):
                self.gated.discard(pod)
                self.ingest.append(PodsPending(sig, pack([pod]), gang))

    def say(self) -> None:
        """Change the configuration: custom plugins answer differently about all signatures."""
        orders = [10 * self.draw(5) for _ in range(4)]
        gates = tuple("P: not yet" if self.draw(4) == 3 else "" for _ in range(4))
        self.ingest.append(SignaturesQueued(pack([1, 2, 3, 4]), pack(orders), gates, again=True))
        for pod, sig in sorted(self.pods.items()):
            gated = pod in self.gated
            self.ingest.append(PodsPending(sig, pack([pod]), self.gang_of[pod], gated=gated))

    def _met(self, pod: int) -> bool:
        pods = self.state.pods
        return pods.base <= pod < pods.top and bool(pods.state[pod - pods.base])

    def pass_time(self) -> None:
        self.state.now_ms += (1, 400, 1_500, 12_000)[self.draw(4)]
        self.step([])

    def node_joins(self) -> None:
        shard = self.shards[self.draw(len(self.shards))]
        if len(shard.nodes) < 4:
            shard.nodes.append(5)
            shard.improve(len(shard.nodes) - 1)
            if self.draw(2):
                shard.journal.append(
                    ShardDigest(shard.number, len(shard.nodes), sum(shard.nodes), 1, 0)
                )

    def journals(self) -> list[deque[Event]]:
        placements = [shard.journal for shard in self.shards]
        return [self.ingest, *placements, self.permit, self.preemption, self.binding]

    def deliver(self) -> None:
        full = [journal for journal in self.journals() if journal]
        if full:
            journal = full[self.draw(len(full))]
            self.step([journal.popleft() for _ in range(min(1 + self.draw(3), len(journal)))])

    def shard_reads(self) -> None:
        shard = self.shards[self.draw(len(self.shards))]
        if shard.inbox:
            shard.read(shard.inbox.popleft(), fails=self.draw(12) == 11)

    def bind(self) -> None:
        if not self.to_bind:
            return
        pod, node = self.to_bind.popleft()
        kind = self.draw(8) if not self.drained else 0
        if pod not in self.pods:
            self.binding.append(BindFailed(pack([pod]), "gone"))
        elif kind < 6:
            self.binding.append(Bound(pack([pod]), pack([node])))
        else:
            for shard in self.shards:
                shard.release(pod)
            self.binding.append(BindFailed(pack([pod]), "abandoned"))

    def permit_answers(self) -> None:
        if not self.tries:
            return
        tried = self.tries.popleft()
        wanted = [(pod, part.sig) for part in tried.members for pod in ids_of(part.ids)]
        taken = [
            pod
            for pod, sig in wanted
            if pod in self.pods and any(shard.take(pod, SIZES[sig % 4]) for shard in self.shards)
        ]
        if len(taken) >= tried.min_count and (self.drained or self.draw(4)):
            self.permit.append(
                GangCommitted(tried.gang, tried.attempt, pack(taken), pack([0] * len(taken)))
            )
            self.to_bind.extend((pod, 0) for pod in taken)
            return
        for pod in taken:
            for shard in self.shards:
                shard.release(pod)
        if not self.drained and self.draw(3) == 2:
            self.permit.append(GangTimedOut(tried.gang, tried.attempt))
        else:
            self.permit.append(
                GangReleased(
                    tried.gang, tried.attempt, (("Insufficient slots", 2),), 4, not self.draw(2)
                )
                if not self.drained
                else GangReleased(tried.gang, tried.attempt, (("Insufficient slots", 2),), 4)
            )

    def preemption_answers(self) -> None:
        if not self.asked:
            return
        pod = self.asked.popleft()
        ask, self.next_ask = self.next_ask, self.next_ask + 1
        if not self.drained and self.draw(2):
            self.preemption.append(PreemptionOpened(ask, pod, 0, b""))
            self.nominations.append((ask, pod))
        else:
            self.preemption.append(PreemptionClosed(ask, pod, "preemption: no."))

    def victims_leave(self) -> None:
        if not self.nominations:
            return
        ask, pod = self.nominations.pop(self.draw(len(self.nominations)))
        shard = self.shards[self.draw(len(self.shards))]
        kind = self.draw(4) if not self.drained else 3
        if kind < 2:
            shard.nodes[0] += 5
            shard.journal.append(NominationReady(shard.number, ask, pod, 0))
            shard.improve(0)
        elif kind == 2:
            shard.journal.append(NominationLost(shard.number, ask, pod, "node gone"))
        else:
            self.preemption.append(PreemptionClosed(ask, pod, "preemption: too late."))

    # ------------------------------------------------------------- stepping

    def evolve(self, event: Event) -> None:
        self.tape.append((self.state.now_ms, event))
        self.core.evolve(self.state, event)

    def step(self, inputs: list[Event]) -> None:
        """Run one step of queueing over these inputs, and send its decisions."""
        for event in inputs:
            self.observer.consumed(event)
            self.evolve(event)
            if isinstance(event, Reserved):
                self.to_bind.extend((pod, 0) for pod in ids_of(event.ids))
        for event in self.core.decide(self.state):
            self.observer.decided(self.state, event)
            self.evolve(event)
            self.log.append(event)
            match event:
                case Dispatched():
                    self.shards[event.shard].inbox.append(event)
                case ReasonsAsked():
                    for shard in self.shards:
                        shard.inbox.append(event)
                case GangDispatched():
                    self.tries.append(event)
                case PreemptAsked():
                    self.asked.extend((event.pod, *ids_of(event.others)))
        self.core.check(self.state)
        self.observer.stayed(self.state)
        self.observer.runs(self.state)
        self.steps += 1
        if self.steps == self.reload_at:
            self.reload()

    def reload(self) -> None:
        body = encode(self.core.dump(self.state))
        loaded = self.core.load(msgspec.msgpack.decode(body))
        loaded.now_ms, loaded.cursors = self.state.now_ms, self.state.cursors
        assert encode(self.core.dump(loaded)) == body
        self.state = loaded
        self.core.check(loaded)

    def heal(self) -> "World":
        """Deliver everything in flight and let time pass, without new input, until all is
        at rest.
        """
        self.at = len(self.script)
        for turn in range(400):
            for shard in self.shards:
                while shard.inbox:
                    shard.read(shard.inbox.popleft())
            for act, todo in (
                (self.bind, self.to_bind),
                (self.permit_answers, self.tries),
                (self.preemption_answers, self.asked),
                (self.victims_leave, self.nominations),
            ):
                while todo:
                    act()
            inputs = [event for journal in self.journals() for event in journal]
            for journal in self.journals():
                journal.clear()
            busy = bool(inputs)
            self.step(inputs)
            due_ms = self.core.due_ms(self.state)
            if not busy and not self.busy():
                if due_ms is None or due_ms > self.state.now_ms + 20_000:
                    return self
                self.state.now_ms = max(due_ms, self.state.now_ms)
                if self.gangs_only() or (turn >= 200 and self.none_moves()):
                    return self
        raise AssertionError("the mesh does not come to rest")

    def busy(self) -> bool:
        todo = (self.to_bind, self.tries, self.asked, self.nominations)
        inboxes = any(shard.inbox for shard in self.shards)
        return inboxes or any(todo) or any(self.journals())

    def gangs_only(self) -> bool:
        """Return whether only gangs that failed at rest are left to be tried."""
        if not self.none_moves() or not self.state.gangs:
            return False
        waiting = [gang for gang in self.state.gangs.values() if gang.waiting and gang.exists]
        failed = [gang for gang in waiting if gang.waiting + gang.running >= gang.min_count]
        return all(gang.failures >= 4 for gang in failed)

    def none_moves(self) -> bool:
        """Return whether pods only wait: with a short timeout, parked ones are tried for ever."""
        counts = self.state.pods.counts
        moving = (Pod.READY, Pod.IN_FLIGHT, Pod.LEFTOVER, Pod.NOMINATED, Pod.GANG_IN_FLIGHT)
        held = sum(map(len, self.state.permit_rejected.values()))
        return counts[Pod.BACKOFF] == held and not any(counts[code] for code in moving)

    def parked_sigs(self) -> set[int]:
        pods = self.state.pods
        return {int(pods.sig[pod - pods.base]) for pod in in_state(self.state, Pod.PARKED)}

    def messages(self) -> list[Parked]:
        return [event for event in self.log if isinstance(event, Parked)]
