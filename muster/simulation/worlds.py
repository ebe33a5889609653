"""A small world made from a seed that contains every kind of pod, for runs without a world."""

import random
from collections.abc import Iterator

from shared.events.observed import PodsSeen
from shared.model.columns import join
from shared.model.objects import (
    CPU,
    DEFAULT_CPU_MILLI,
    DEFAULT_MEMORY_BYTES,
    MEMORY,
    PODS,
    Budget,
    Gang,
    GpuRequest,
    HostPort,
    Node,
    PodSpec,
    PreferredTerm,
    Requirement,
    SelectorTerm,
    Taint,
    Toleration,
)
from shared.model.world import Arrival, World

GIB = 1 << 30
ZONES = ("a", "b", "c")
ARRIVALS_MS = 14_000
PODS_MIN = 205
BALLAST = "ballast"


def make_node(index: int, rng: random.Random, cpu_milli: int = 0) -> Node:
    """Return a node of a common kind; every fourth has GPUs, every seventh a taint."""
    zone = ZONES[index % len(ZONES)]
    gpus = 2 if index % 4 == 0 else 0
    cpu_milli = cpu_milli or rng.choice((8_000, 12_000, 16_000))
    return Node(
        uid=f"node-uid-{index}",
        name=f"node-{index}",
        allocatable=(
            (CPU, cpu_milli),
            (MEMORY, cpu_milli * GIB // 500),
            (PODS, rng.choice((12, 16, 30))),
        ),
        labels={"zone": zone, "kubernetes.io/hostname": f"node-{index}"},
        taints=(Taint("dedicated", "batch"),) if index % 7 == 6 else (),
        gpu_count=gpus,
        gpu_model="T4" if gpus and index % 8 == 0 else "V100" if gpus else "",
    )


def make_spec(cpu_milli: int, memory_bytes: int, priority: int = 0, **more: object) -> PodSpec:
    """Return a spec that requests cpu and memory."""
    requests = tuple((k, v) for k, v in ((CPU, cpu_milli), (MEMORY, memory_bytes)) if v)
    spec = {
        "priority": priority,
        "requests": requests,
        "nonzero_cpu_milli": cpu_milli or DEFAULT_CPU_MILLI,
        "nonzero_memory_bytes": memory_bytes or DEFAULT_MEMORY_BYTES,
        **more,
    }
    return PodSpec(**spec)  # type: ignore[arg-type]


def shapes() -> list[PodSpec]:
    """Return the specs of ordinary pods."""
    in_b = SelectorTerm(labels=(Requirement("zone", "In", ("b",)),))
    return [
        make_spec(500, GIB),
        make_spec(700, GIB, priority=10),
        make_spec(1500, 2 * GIB),
        make_spec(2500, GIB, priority=10),
        make_spec(0, 0),
        make_spec(300, GIB, node_selector=(("zone", "a"),)),
        make_spec(400, GIB, tolerations=(Toleration("dedicated", "Equal", "batch"),)),
        make_spec(300, GIB, priority=5, affinity_required=(in_b,)),
        make_spec(300, GIB, affinity_preferred=(PreferredTerm(50, in_b),)),
        make_spec(200, GIB, host_ports=(HostPort(8080),)),
        make_spec(500, GIB, gpu=GpuRequest(500)),
        make_spec(500, GIB, gpu=GpuRequest(1000, 1, ("T4",))),
        make_spec(64_000, GIB),
        make_spec(200, GIB, node_selector=(("zone", "nowhere"),)),
    ]


class _Maker:
    """Makes pods and numbers their names."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0

    def pods(
        self, spec: PodSpec, count: int, at_ms: int, gang: str = "", gated: bool = False
    ) -> Arrival:
        """Return `count` pods of one spec that arrive together."""
        names = [f"pod-{self.count + index}" for index in range(count)]
        self.count += count
        app = self.rng.choice(("web", "web", "job", "db"))
        seen = PodsSeen(
            spec=spec,
            uids=join(f"{name}-uid" for name in names),
            names=join(names),
            revisions=b"",
            labels=(("app", app),),
            gang=gang,
            gated=gated,
        )
        return Arrival(at_ms=at_ms, pods=seen)


def _ordinary(maker: _Maker) -> Iterator[Arrival]:
    """Yield mixed pods until there are enough; some are gated, small ones are more frequent."""
    rng, kinds = maker.rng, shapes()
    while maker.count < PODS_MIN - 40:
        spec = kinds[min(rng.randrange(len(kinds)), rng.randrange(len(kinds) + 3))]
        few = spec.gpu is not None or spec.host_ports or spec.request(CPU) > 2_000
        count = rng.randint(1, 3) if few else rng.choice((1, 2, 4, 8, 16))
        at_ms = rng.randrange(0, ARRIVALS_MS)
        yield maker.pods(spec, count, at_ms, gated=rng.random() < 0.06)


def _latecomers(maker: _Maker) -> Iterator[Arrival]:
    """Yield pods of high priority that arrive in a full cluster."""
    rng = maker.rng
    for _ in range(rng.randint(5, 8)):
        cpu_milli = rng.choice((2_000, 4_000, 6_000))
        more = {"never_preempts": True} if rng.random() < 0.15 else {}
        spec = make_spec(cpu_milli, GIB, priority=rng.choice((100, 1_000)), **more)
        yield maker.pods(spec, rng.choice((1, 1, 2)), rng.randrange(8_000, ARRIVALS_MS + 2_000))


def _gang(maker: _Maker, name: str, spec: PodSpec, count: int, least: int) -> Iterator[object]:
    """Yield a pod group and its members, which may arrive apart."""
    rng = maker.rng
    key = f"default/{name}"
    timeout_ms = rng.choice((3_000, 6_000, 20_000))
    yield Gang(key=key, min_count=least, timeout_ms=timeout_ms)
    at_ms = rng.randrange(0, ARRIVALS_MS)
    first = rng.randint(1, count) if rng.random() < 0.5 else count
    yield maker.pods(spec, first, at_ms, gang=key)
    if first < count:
        yield maker.pods(spec, count - first, at_ms + rng.randrange(10, 4_000), gang=key)


def _gangs(maker: _Maker) -> Iterator[object]:
    rng = maker.rng
    gpu = make_spec(100, GIB, priority=20, gpu=GpuRequest(1000))
    yield from _gang(maker, "train", gpu, 5, 5)
    yield from _gang(maker, "small", make_spec(400, GIB, priority=rng.choice((0, 10))), 4, 3)
    yield from _gang(maker, "huge", make_spec(7_500, GIB, priority=30), 24, 24)
    yield from _gang(maker, "wide", make_spec(3_000, GIB, priority=50), 12, rng.choice((9, 12)))


def _urgent(maker: _Maker) -> Iterator[object]:
    """Yield gangs of high priority that arrive in a full cluster."""
    rng = maker.rng
    for number in range(rng.choice((1, 1, 2))):
        spec = make_spec(rng.choice((1_000, 2_000, 4_500)), GIB, priority=rng.choice((60, 500)))
        least = rng.randint(2, 6)
        key = f"default/urgent-{number}"
        yield Gang(key=key, min_count=least, timeout_ms=rng.choice((6_000, 20_000)))
        at_ms = rng.randrange(9_000, ARRIVALS_MS + 2_000)
        yield maker.pods(spec, least + rng.choice((0, 0, 2)), at_ms, gang=key)


def ballast(rng: random.Random) -> list[Arrival]:
    """Return gated pods that are deleted early. They push the numbers of later pods beyond the
    initial size of the tables.
    """
    count = rng.choice((0, 0, 0, 900, 1_100, 4_500))
    names = [f"{BALLAST}-{index}" for index in range(count)]
    seen = PodsSeen(
        spec=make_spec(100, GIB),
        uids=join(names),
        names=join(names),
        revisions=b"",
        gated=True,
    )
    return [Arrival(at_ms=0, pods=seen)] if names else []


def make_world(seed: int) -> World:
    """Return a world whose nodes hold about nine tenths of the pods: some wait, some
    are preempted.
    """
    rng = random.Random(f"{seed}/world")
    maker = _Maker(rng)
    nodes = tuple(make_node(index, rng) for index in range(rng.randint(14, 17)))
    made: list[object] = [*ballast(rng), *_gangs(maker), *_ordinary(maker), *_latecomers(maker)]
    if maker.count < PODS_MIN:
        made.append(maker.pods(make_spec(100, 0), PODS_MIN - maker.count, 1_000))
    urgent = _Maker(random.Random(f"{seed}/urgent"))
    urgent.count = maker.count
    made += _urgent(urgent)
    arrivals = [item for item in made if isinstance(item, Arrival)]
    budgets = tuple(
        Budget(
            uid=f"budget-{app}",
            namespace="default",
            name=app,
            match_labels=(("app", app),),
            allowed=rng.choice((0, 1, 3)),
        )
        for app in ("db", "job")
    )
    return World(
        name=f"seed-{seed}",
        nodes=nodes,
        arrivals=tuple(sorted(arrivals, key=lambda arrival: arrival.at_ms)),
        budgets=budgets,
        gangs=tuple(item for item in made if isinstance(item, Gang)),
    )
