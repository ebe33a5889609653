"""Pods are renamed while work is in flight: every charge has the last name, and where no rule looks
at names nothing else changes.
"""

import random
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.events.base import Event
from shared.events.ingest import PodsAssigned, PodsRelabelled, SignatureDefined, SignatureRetired
from shared.events.placement import GangHeld
from shared.events.queueing import Dispatched
from shared.model.columns import pack, unpack
from shared.model.objects import PodSpec
from tests.properties.placement_world import Driver, decisions, wire

SEEDS = st.integers(0, 1 << 32)
STEPS = 60
ROOM = 1_000  # numbers for the names of one signature


class Renamer(Driver):
    """The driver's own signatures are what queueing knows: dispatches and asks go on naming them.
    `now` is what ingest said last. `whole`: all pods of a signature, later ones too, get the name.
    """

    def __init__(self, seed: int, chance: float, whole: bool, **options: Any) -> None:
        self.names = random.Random(seed + 2)
        self.chance, self.whole = chance, whole
        self.now: dict[int, int] = {}
        self.base: dict[int, int] = {}  # signature that queueing knows, by name
        self.named: dict[int, PodSpec] = {}
        self.renamed: dict[int, int] = {}  # signatures whose later pods get a name, too
        super().__init__(seed, **options)

    def play(self, steps: int) -> "Renamer":
        super().play(steps)
        return self

    def number(self, what: str) -> int:
        return super().number(what) * (ROOM if what == "sig" else 1)

    def maybe_reload(self) -> None:
        super().maybe_reload()
        if self.names.random() < self.chance:
            self.rename()

    def rename(self) -> None:
        sigs = sorted({self.current(pod) for pod in self.pods} & {*self.defined, *self.named})
        if not sigs:
            return
        old = self.names.choice(sigs)
        pods = [pod for pod in sorted(self.pods) if self.current(pod) == old]
        if not self.whole:
            pods = self.names.sample(pods, self.names.randint(1, len(pods)))
        base, new = self.base.get(old, old), max(self.state.last_sig, *self.named, 0, 0) + 1
        labels = (("name", str(new)),)
        self.named[new] = replace(self.specs[base], namespace="here", labels=labels)
        self.base[new] = base
        self.evolve(SignatureDefined(new, self.named[new]))
        if self.whole:
            self.renamed[base] = new
        self.tell(pods, new)
        if old in self.named and old not in self.now.values():
            del self.named[old]
            self.evolve(SignatureRetired(old))

    def tell(self, pods: list[int], sig: int) -> None:
        self.now.update(dict.fromkeys(pods, sig))
        self.evolve(PodsRelabelled(pack(pods), pack([sig] * len(pods))))

    def current(self, pod: int) -> int:
        return self.now.get(pod, self.pods[pod])

    def new_pods(self, sig: int, count: int) -> list[int]:
        pods = super().new_pods(sig, count)
        names = [name for name in self.named if self.base[name] == sig]
        if self.whole and sig in self.renamed:
            self.tell(pods, self.renamed[sig])
        elif not self.whole and names and self.names.random() < 0.5:
            # Their dispatch was on its way when ingest named them.
            for pod in pods:
                self.tell([pod], self.names.choice(names))
        return pods

    def forget(self, pods: list[int]) -> None:
        super().forget(pods)
        for pod in pods:
            self.now.pop(pod, None)

    def retire(self) -> None:
        """Nothing else is known of it then: a name that is left must not outlive it here."""

    def evolve(self, event: Event) -> None:
        if isinstance(event, PodsAssigned):
            columns = unpack(event.ids).tolist(), unpack(event.sigs).tolist()
            sigs = [self.now.get(pod, sig) for pod, sig in zip(*columns, strict=True)]
            event = replace(event, sigs=pack(sigs))
        super().evolve(event)

    def note(self, event: Event) -> None:
        super().note(self.as_known(event))
        self.assert_current()

    def as_known(self, event: Any) -> Any:
        """Return the event with the signatures that the driver knows."""
        if isinstance(event, GangHeld):
            sigs = [self.base.get(sig, sig) for sig in unpack(event.sigs).tolist()]
            return replace(event, sigs=pack(sigs))
        if getattr(event, "sig", 0) in self.base:
            return replace(event, sig=self.base[event.sig])
        return event

    def known(self) -> Iterator[tuple[Any, ...]]:
        return decisions([self.as_known(event) for event in self.log])

    def assert_current(self) -> None:
        ledger = self.state.ledger
        for pod in self.on:
            kind = ledger.kind_of(pod).name
            if pod in self.pods and kind not in ("FREE", "GONE", "QUEUED"):
                sig = int(ledger.sig[pod - ledger.base])
                assert sig == self.current(pod), f"{kind} pod {pod} is charged as {sig}"


@settings(max_examples=40)
@given(SEEDS)
def test_every_charge_has_the_latest_signature(seed):
    """Whether the dispatch came before or after it, and whatever became of the pod."""
    Renamer(seed, 0.3, whole=False).play(STEPS).assert_current()


@settings(max_examples=40)
@given(SEEDS)
def test_identities_that_no_rule_reads_change_nothing(seed):
    plain = Renamer(seed, 0.0, whole=True).play(STEPS)
    named = Renamer(seed, 0.3, whole=True).play(STEPS)
    assert list(named.known()) == list(plain.known())


@settings(max_examples=25)
@given(SEEDS)
def test_a_reloaded_shard_knows_the_latest_signatures(seed):
    straight = Renamer(seed, 0.2, whole=False).play(STEPS)
    reloaded = Renamer(seed, 0.2, whole=False, reload_chance=0.3).play(STEPS)
    assert straight.log == reloaded.log
    assert wire(straight.core.dump(straight.state)) == wire(reloaded.core.dump(reloaded.state))


@settings(max_examples=15)
@given(SEEDS)
def test_batches_do_not_change_signatures(seed):
    on = Renamer(seed, 0.3, whole=False).play(STEPS)
    off = Renamer(seed, 0.3, whole=False, batch=False).play(STEPS)
    assert list(decisions(on.log)) == list(decisions(off.log))


def test_dispatches_under_old_signatures_occur():
    """What the tests above are about is there: of all pods that were placed many were dispatched
    under a signature that they no longer had.
    """
    under_old = 0
    for seed in range(5):
        driver = Renamer(seed, 0.3, whole=False).play(STEPS)
        under_old += len([e for e in driver.log if getattr(e, "sig", 0) in driver.base])
    assert under_old > 50
    assert Dispatched(1, 0, 1, b"").to() == ("placement/0",)
