"""Injects the scenario's faults into the mesh and the cluster at their times."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from muster.checker.inputs.history import Post
from muster.checker.inputs.journals import decode_events
from muster.simulation.mesh import SimMesh
from muster.simulation.network import Way
from muster.simulation.process import Process
from muster.simulation.scenario import (
    QUEUES,
    SPREADERS,
    TREES,
    Crash,
    Jump,
    Mutation,
    Restore,
    Takeover,
)
from muster.simulation.worlds import BALLAST, make_node, make_spec
from shared.events.observed import PodsSeen
from shared.events.permit import HoldAsked
from shared.machine.crash import CrashPoint
from shared.machine.reset import renamed
from shared.model.cluster_objects import HyperNode, Queue
from shared.model.columns import split
from shared.model.ids import BINDING, INGEST, PERMIT, START, JournalName, placement
from shared.model.pod_rules.default_spread import Spreader
from shared.model.world import Arrival
from shared.simulated.backup import BUSY, Backup, back_up, restore
from shared.simulated.cluster import SimCluster
from shared.simulated.pod import SimPod

RETRY_S = 0.1
FOREIGN_CPU_MILLI = 1_000
KILLED_IN_TURN = 0.1
BALLAST_S = 0.7
ROOM_S = 1.0


def uids(arrival: Arrival) -> list[str]:
    """Return the uids of an arrival's pods."""
    return split(arrival.pods.uids)


class Nemesis:
    """Schedules every fault of a scenario on the loop's clock."""

    def __init__(self, mesh: SimMesh, cluster: SimCluster) -> None:
        self.mesh, self.cluster = mesh, cluster
        self.rng = random.Random(f"{mesh.scenario.seed}/nemesis")
        self.restore_rng = random.Random(f"{mesh.scenario.seed}/restored")
        self.services_rng = random.Random(f"{mesh.scenario.seed}/services")
        self.turns_rng = random.Random(f"{mesh.scenario.seed}/turns")
        self.extra: list[Arrival] = []
        self.healed = False
        self.owed: list[Crash] = list(mesh.scenario.crashes)
        self.nodes_made = 100
        self.undone: list[tuple[float, float]] = []
        self.to_remake = 0
        self._loop = asyncio.get_running_loop()
        if mesh.scenario.hunts_holds:
            mesh.log.on_landed = self._landed

    def start(self) -> None:
        """Schedule all faults."""
        scenario = self.mesh.scenario
        self._at(BALLAST_S, self._drop_ballast)
        for crash in scenario.crashes:
            self._at(crash.at_s, partial(self._arm, crash))
        for at_s, journal in scenario.kills:
            self._at(at_s, partial(self._kill, journal))
        for takeover in scenario.takeovers:
            self._at(takeover.at_s, partial(self._take_over, takeover))
        for jump in scenario.jumps:
            self._at(jump.at_s, partial(self._jump, jump))
        for mutation in scenario.mutations:
            self._at(mutation.at_s, partial(self._mutate, mutation))
        for at_s, journal in scenario.tears:
            self._at(at_s, partial(self._tear, journal))
        if scenario.restore is not None:
            self._at(scenario.restore.backup_s, partial(self._back_up, scenario.restore))

    def _at(self, at_s: float, call: Callable[[], None]) -> None:
        self._loop.call_at(at_s, call)

    def _drop_ballast(self) -> None:
        self.cluster.delete([uid for uid in self.cluster.pods if uid.startswith(BALLAST)])

    def heal(self) -> None:
        """End all faults, and trigger the crash points that were never reached."""
        self.healed = True
        self.mesh.log.faults.heal()
        self.mesh.wire.faults.heal()
        self.mesh.wire.on_sent = None
        for process in self.mesh.processes.values():
            process.armed = None
        for crash in self.owed:
            self.mesh.seen["crash-not-reached"] += 1
            self._crash_next(crash.journal)
        self._loop.call_later(ROOM_S, self._make_room)

    def _make_room(self) -> None:
        """Finish some pods at the end. Pods that fit now must be woken by that event alone."""
        bound = [pod.uid for pod in self.cluster.pods.values() if pod.node]
        self.cluster.delete(self.rng.sample(bound, len(bound) // 8), "finished")

    # --------------------------------------------------------------------------- processes

    def _arm(self, crash: Crash) -> None:
        if self.healed:
            return
        process = self.mesh.owner_of(crash.journal)
        if process is None or process.armed is not None:
            self._loop.call_later(RETRY_S, self._arm, crash)
            return
        process.armed, process.skips = crash.point, crash.skips
        key = next(key for key, running in self.mesh.processes.items() if running is process)
        self.mesh.down_s[key] = crash.down_s
        self._loop.call_later(RETRY_S, self._watch, crash, process, self.mesh.deaths)

    def _watch(self, crash: Crash, process: object, _deaths: int) -> None:
        """Arm the next owner if this one ended without reaching the point."""
        if self.healed:
            return
        service = crash.journal.partition("/")[0]
        held = next((p for p in self.mesh.processes.values() if p is process), None)
        if held is not None and held.armed is not None and held.owner is not None:
            self._loop.call_later(RETRY_S, self._watch, crash, process, 0)
        elif self.mesh.crashes[(service, crash.point)] > 0:
            if crash in self.owed:
                self.owed.remove(crash)
        else:
            self._arm(crash)

    def _crash_next(self, journal: JournalName) -> None:
        """Kill the owner of a journal at the start of its next turn."""
        process = self.mesh.owner_of(journal)
        if process is None or process.armed is not None:
            self._loop.call_later(RETRY_S, self._crash_next, journal)
            return
        process.armed, process.skips = CrashPoint.BEFORE_CONSUME, 0

    def _kill(self, journal: JournalName) -> None:
        process = self.mesh.owner_of(journal)
        if process is not None:
            self.mesh.seen["kill"] += 1
            process.kill()

    def _take_over(self, takeover: Takeover) -> None:
        if self.healed:
            return
        first = self.mesh.owner_of(takeover.journal)
        if first is None or first.owner is None:
            self._loop.call_later(RETRY_S, self._take_over, takeover)
            return
        names = [name for journal, name in self.mesh.processes if journal == takeover.journal]
        name = next(name for name in "cdefgh" if name not in names)
        if takeover.ghost:
            first.owner.ghost = True
            self.mesh.seen["ghost"] += 1
            self._loop.call_later(takeover.for_s, first.kill)
            self._loop.call_later(0.05, self._haunt, first, takeover.for_s)
        self.mesh.seen["takeover"] += 1
        self.mesh.spawn(takeover.journal, name, eager=True)

    def _haunt(self, process: Process, left_s: float) -> None:
        """Keep the ghost's effects running: send its unanswered requests again and again."""
        if self.healed or left_s <= 0 or process.owner is None:
            return
        for network in process.networks:
            self.mesh.seen["ghost-effect-again"] += network.resend()
        self._loop.call_later(0.5, self._haunt, process, left_s - 0.5)

    def _jump(self, jump: Jump) -> None:
        process = self.mesh.owner_of(jump.journal)
        if process is not None:
            process.clock.skew_ms += jump.by_ms
            self.mesh.seen["clock-jump"] += 1

    def _tear(self, journal: JournalName) -> None:
        """Cut the newest snapshot's body short and kill the owner, unless an older torn one is
        still kept: storage may fail once, not twice in a row.
        """
        store = self.mesh.store
        stored = renamed(journal, self.mesh.epoch)
        found = store.list(stored)
        if len(found) < 2 or journal in self.mesh.torn:
            return
        self.mesh.torn.add(journal)
        self.mesh.seen["torn-snapshot"] += 1
        store.tear(stored, found[0].position, self.rng.randrange(found[0].size_bytes))
        self._kill(journal)

    def _landed(self, journal: JournalName, payload: bytes) -> None:
        """While a gang is held across shards, kill one shard before it reads the request, or permit
        before it reads the answer. Sometimes the group changes meanwhile, so that the other holds
        are useless.
        """
        if self.healed or not journal.startswith("permit"):
            return
        events = decode_events(payload, PERMIT, START)
        asked = [event for event in events if isinstance(event, HoldAsked)]
        if asked and asked[0].turn:
            if self.turns_rng.random() < KILLED_IN_TURN:
                shard = placement(asked[0].shard)
                self._kill_in_hold(self.turns_rng.choice((shard, PERMIT)), "killed-in-turn")
            return
        if len(asked) < 2 or self.rng.random() < 0.3:
            return
        self._kill_in_hold(placement(self.rng.choice(asked).shard), "shard-killed-in-hold")

    def _kill_in_hold(self, victim: JournalName, seen: str) -> None:
        process = self.mesh.owner_of(victim)
        if process is None:
            return
        self.mesh.seen[seen] += 1
        self.mesh.down_s[(victim, process.name.rpartition("-")[2])] = 5.5
        process.kill()
        change = self.rng.choice((self._gang_version, self._delete_member, None))
        if change is not None:
            self._loop.call_later(0.3, change)

    # --------------------------------------------------------------------------- the cluster

    def _mutate(self, mutation: Mutation) -> None:
        deeds: dict[str, Callable[[], bool]] = {
            "delete-pending": lambda: self._delete(self._wanted()),
            "delete-bound": lambda: self._delete(lambda pod: bool(pod.node)),
            "delete-any": lambda: self._delete(lambda _pod: True),
            "foreign-bind": self._foreign_bind,
            "foreign-pod": self._foreign_pod,
            "node-delete": self._delete_node,
            "node-add": self._add_node,
            "node-cordon": lambda: self._change_node(unschedulable=True),
            "node-uncordon": lambda: self._change_node(unschedulable=False),
            "node-shrink": lambda: self._scale_node(0.6),
            "node-grow": lambda: self._scale_node(1.5),
            "ungate": self._ungate,
            "budget": self._budget,
            "gang-version": self._gang_version,
            "node-remade": self._remake_node,
            SPREADERS: self._change_service,
            TREES: self._change_hyper_node,
            QUEUES: self._change_queue,
            "history-compacted": self._compact,
            "watches-broken": self._break_watches,
        }
        if deeds[mutation.kind]():
            self.mesh.seen[mutation.kind] += 1

    def _back_up(self, plan: Restore) -> None:
        backup = back_up(self.cluster)
        self._at(plan.at_s, partial(self._restore, backup, plan))

    def _restore(self, backup: Backup, plan: Restore) -> None:
        """Restore the cluster from the backup; sometimes a process dies in the outage. It happens
        after the mesh has seen some of the undone changes: backups are older than watches lag.
        """
        process = self.mesh.owner_of(INGEST)
        if process is None or process.owner is None or process.owner.state.revision <= BUSY:
            if not self.healed:
                self._loop.call_later(RETRY_S, self._restore, backup, plan)
            return
        self.undone.append((plan.backup_s, self._loop.time()))
        self.mesh.wire.listed.clear()
        restore(self.cluster, backup, plan.is_bumped)
        self.mesh.seen["cluster-restored"] += 1
        for journal in (INGEST, BINDING):
            if self.restore_rng.random() < 0.3:
                self._at(
                    self._loop.time() + self.restore_rng.random(), partial(self._kill, journal)
                )

    def _pick(self, wanted: Callable[[SimPod], bool]) -> SimPod | None:
        found = [pod for pod in self.cluster.pods.values() if wanted(pod)]
        return self.rng.choice(found) if found else None

    def _delete(self, wanted: Callable[[SimPod], bool]) -> bool:
        found = [pod.uid for pod in self.cluster.pods.values() if wanted(pod)]
        chosen = self.rng.sample(found, min(len(found), self.rng.randint(1, 4)))
        self.cluster.delete(chosen)
        return bool(chosen)

    def _wanted(self) -> Callable[[SimPod], bool]:
        """Return a filter for pending pods, preferring one with an open bind, the hardest case."""
        posts = self.mesh.wire.posts
        # A POST for these is still under way although its sender gave up.
        late = {post.uid for post in posts if post.way == Way.LATE and post.landed_s is None}
        return lambda pod: not pod.node and (pod.uid in late or not late)

    def _delete_member(self) -> None:
        """Delete a pending member of a gang."""
        gangs = {
            uid for part in self.cluster.world.arrivals if part.pods.gang for uid in uids(part)
        }
        pod = self._pick(lambda pod: not pod.node and pod.uid in gangs)
        if pod is not None:
            self.cluster.delete([pod.uid])

    def _foreign_bind(self) -> bool:
        is_wanted = self._wanted()
        pod = self._pick(lambda pod: is_wanted(pod) and not pod.gated)
        pod = pod or self._pick(lambda pod: not pod.node and not pod.gated)
        if pod is None or not self.cluster.nodes:
            return False
        node = self.rng.choice(list(self.cluster.nodes.values()))
        return self.cluster.foreign_bind(pod.uid, node.name)

    def _foreign_pod(self) -> bool:
        """Create a pod of another scheduler with a node."""
        if not self.cluster.nodes:
            return False
        node = self.rng.choice(list(self.cluster.nodes.values()))
        name = f"foreign-{len(self.extra)}"
        seen = PodsSeen(
            spec=make_spec(FOREIGN_CPU_MILLI, 0, priority=self.rng.choice((0, 500))),
            uids=f"{name}-uid",
            names=name,
            revisions=b"",
            nodes=node.name,
        )
        arrival = Arrival(at_ms=0, pods=seen)
        self.extra.append(arrival)
        self.cluster.create(arrival)
        return True

    def _delete_node(self) -> bool:
        if len(self.cluster.nodes) < 11:
            return False
        # Prefer one with a POST under way: that bind must be fenced.
        posts = self.mesh.wire.posts
        wanted = {post.node for post in posts if post.way == Way.LATE and post.landed_s is None}
        found = [uid for uid, node in self.cluster.nodes.items() if node.name in wanted]
        self.cluster.remove_node(self.rng.choice(found or list(self.cluster.nodes)))
        return True

    def _remake_node(self) -> bool:
        """When the next binds are sent, replace one of their nodes before they arrive."""
        self.to_remake += 1
        self.mesh.wire.on_sent = self._sent
        return False

    def _sent(self, posts: Sequence[Post]) -> None:
        wire, names = self.mesh.wire, {post.node for post in posts}
        found = [uid for uid, node in self.cluster.nodes.items() if node.name in names]
        if not found:
            return
        # The fullest node: there the binds under way matter.
        pods = Counter(pod.node for pod in self.cluster.pods.values())
        uid = max(found, key=lambda uid: pods[self.cluster.nodes[uid].name])
        wire.remade_s[self.cluster.nodes[uid].name] = self._loop.time()
        self.nodes_made += 1
        self.cluster.remake_node(uid, f"{uid}-{self.nodes_made}")
        self.mesh.seen["node-remade"] += 1
        self.to_remake -= 1
        if not self.to_remake:
            wire.on_sent = None

    def _add_node(self) -> bool:
        self.nodes_made += 1
        self.cluster.set_node(make_node(self.nodes_made, self.rng))
        return True

    def _change_node(self, unschedulable: bool) -> bool:
        found = [n for n in self.cluster.nodes.values() if n.unschedulable is not unschedulable]
        if not found:
            return False
        node = self.rng.choice(found)
        self.cluster.set_node(msgspec.structs.replace(node, unschedulable=unschedulable))
        return True

    def _scale_node(self, factor: float) -> bool:
        if not self.cluster.nodes:
            return False
        node = self.rng.choice(list(self.cluster.nodes.values()))
        scaled = tuple((name, int(amount * factor)) for name, amount in node.allocatable)
        self.cluster.set_node(msgspec.structs.replace(node, allocatable=scaled))
        return True

    def _ungate(self) -> bool:
        found = [pod.uid for pod in self.cluster.pods.values() if pod.gated]
        self.cluster.ungate(found[:4])
        return bool(found)

    def _budget(self) -> bool:
        if not self.cluster.budgets:
            return False
        budget = self.rng.choice(list(self.cluster.budgets.values()))
        allowed = self.rng.choice((0, 1, 2))
        self.cluster._set_budget(msgspec.structs.replace(budget, allowed=allowed, disrupted=()))
        return True

    def _change_service(self) -> bool:
        """Delete, recreate or change a Service or controller."""
        rng, cluster = self.services_rng, self.cluster
        every = [one for one in cluster.world.objects if isinstance(one, Spreader)]
        one = rng.choice(every)
        if one.uid in cluster.objects and rng.random() < 0.5:
            cluster.remove_object(one.uid)
        else:
            other = rng.choice([like for like in every if type(like) is type(one)])
            changed = msgspec.structs.replace(one, selector=other.selector)
            cluster.set_object(changed)
        return True

    def _change_hyper_node(self) -> bool:
        """Delete or recreate a HyperNode, or give it a member less or another tier."""
        rng, cluster = self.services_rng, self.cluster
        one = rng.choice([one for one in cluster.world.objects if isinstance(one, HyperNode)])
        change = rng.choice((None, {}, {"members": one.members[1:]}, {"tier": one.tier + 2}))
        if change is not None:
            cluster.set_object(msgspec.structs.replace(one, **change))
        elif one.uid in cluster.objects:
            cluster.remove_object(one.uid)
        return True

    def _change_queue(self) -> bool:
        """Delete or recreate a Queue, give it another's max or guarantee, or put it below that."""
        rng, cluster = self.services_rng, self.cluster
        every = [one for one in cluster.world.objects if isinstance(one, Queue)]
        one, other = rng.choice(every), rng.choice(every)
        change = rng.choice((None, {}, {"max": other.max}, {"parent": other.name}))
        if change and other.guaranteed and rng.random() < 0.5:
            change = {"guaranteed": other.guaranteed}
        if change is not None:
            cluster.set_object(msgspec.structs.replace(one, **change))
        elif one.uid in cluster.objects:
            cluster.remove_object(one.uid)
        return True

    def _compact(self) -> bool:
        """Compact the log, so that late or resuming watchers must list again."""
        self.cluster.forget_history()
        self.cluster.break_watches()
        return True

    def _break_watches(self) -> bool:
        self.cluster.break_watches()
        return True

    def _gang_version(self) -> bool:
        if not self.cluster.gangs:
            return False
        gang = self.rng.choice(list(self.cluster.gangs.values()))
        least = max(1, gang.min_count - self.rng.randint(0, 1))
        changed = msgspec.structs.replace(gang, min_count=least, version=gang.version + 1)
        self.cluster.set_gangs([changed])
        return True
