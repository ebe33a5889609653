"""The kernel in batches, cached or not, equals a naive oracle that runs one cycle after another."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.framework import cache, sweep
from shared.framework.kernel import Kernel
from shared.framework.picks import Picks
from shared.framework.scratch import OneNode
from shared.framework.signature import Signature
from shared.framework.table import NodeTable
from shared.model.objects import (
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
from tests.properties.kernel_oracle import Host, single_cycle, why_not

SEED = 7
GI = 1 << 30

# Few values and small nodes: many ties, and nodes that fill while a batch runs.
taints = st.builds(
    Taint,
    key=st.sampled_from(["a", "b"]),
    effect=st.sampled_from(["NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"]),
)
tolerations = st.builds(
    Toleration,
    key=st.sampled_from(["a", "b", ""]),
    operator=st.just("Exists"),
    effect=st.sampled_from(["", "NoSchedule", "PreferNoSchedule"]),
)
label_needs = st.one_of(
    st.builds(
        Requirement,
        key=st.sampled_from(["zone", "size"]),
        operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        values=st.sampled_from([("x",), ("x", "y"), ("3",)]),
    ),
    st.builds(
        Requirement,
        key=st.just("size"),
        operator=st.sampled_from(["Gt", "Lt"]),
        values=st.sampled_from([("2",), ("5",)]),
    ),
)
name_needs = st.builds(
    Requirement,
    key=st.just("metadata.name"),
    operator=st.sampled_from(["In", "NotIn"]),
    values=st.sampled_from([("n1",), ("n2", "n3"), ("n0", "absent")]),
)
terms = st.builds(
    SelectorTerm,
    labels=st.lists(label_needs, max_size=2).map(tuple),
    fields=st.lists(name_needs, max_size=1).map(tuple),
)
rarely = st.sampled_from([False, False, False, True])


def maybe(strategy):
    """Empty three times in four: pods that ask for everything at once fit nowhere."""
    return rarely.flatmap(lambda wanted: strategy if wanted else st.just(()))


@st.composite
def nodes(draw, number: int) -> Node:
    cpu, memory, pods = draw(
        st.sampled_from(
            [
                *((4000, 8 * GI, 5), (4000, 8 * GI, 5), (2000, 8 * GI, 3), (3000, 4 * GI, 110)),
                *((1000, 0, 4), (0, 4 * GI, 4), (7001, 3 * GI + 1, 9)),
            ]
        )
    )
    extra = draw(st.sampled_from([(), (), (("example.com/dongle", 2),)]))
    labels = {"zone": draw(st.sampled_from("xyz"))}
    size = draw(st.sampled_from([None, "1", "3", "8", "-4", "wide"]))
    if size is not None:
        labels["size"] = size
    gpus = draw(st.sampled_from([0, 0, 1, 3]))
    allocatable = (("cpu", cpu), *extra, ("memory", memory), ("pods", pods))
    return Node(
        uid=f"uid-{number}",
        name=f"n{number}",
        allocatable=tuple((name, amount) for name, amount in allocatable if amount),
        labels=labels,
        taints=tuple(draw(maybe(st.lists(taints, max_size=2)))),
        unschedulable=draw(rarely) and draw(rarely),
        gpu_count=gpus,
        gpu_model=draw(st.sampled_from(["P100", "T4"])) if gpus else "",
    )


@st.composite
def specs(draw) -> PodSpec:
    cpu = draw(st.sampled_from([0, 100, 250, 500, 700, 1000, 5000]))
    memory = draw(st.sampled_from([0, GI // 8, GI // 2, GI, 3 * GI]))
    requests = {"cpu": cpu, "memory": memory} if draw(st.integers(0, 5)) else {}
    if draw(rarely):
        requests["example.com/dongle"] = 1
    gpu = draw(
        st.sampled_from(
            [
                *(None, None, None, GpuRequest(300), GpuRequest(500), GpuRequest(700)),
                *(GpuRequest(1000), GpuRequest(1000, 2), GpuRequest(400, 1, ("T4",))),
            ]
        )
    )
    ports = st.lists(
        st.sampled_from([HostPort(80), HostPort(80, "UDP"), HostPort(80, "TCP", "10.0.0.1")]),
        min_size=1,
        max_size=2,
        unique=True,
    )
    preferred = st.builds(PreferredTerm, weight=st.sampled_from([1, 10, 70]), term=terms)
    return PodSpec(
        requests=tuple(sorted(requests.items())),
        nonzero_cpu_milli=cpu if "cpu" in requests else 100,
        nonzero_memory_bytes=memory if "memory" in requests else 200 * 1024 * 1024,
        node_selector=draw(maybe(st.just((("zone", "x"),)))),
        affinity_required=tuple(draw(maybe(st.lists(terms, min_size=1, max_size=2)))),
        affinity_preferred=tuple(draw(maybe(st.lists(preferred, min_size=1, max_size=3)))),
        tolerations=tuple(draw(maybe(st.lists(tolerations, max_size=2)))),
        host_ports=tuple(draw(maybe(ports))),
        gpu=gpu,
    )


@contextmanager
def switched(wide_min: int, scalar_rows_max: int, band_few: int) -> Iterator[None]:
    """The kernel's switch-overs moved: small worlds then run the code meant for large ones."""
    before = sweep.WIDE_MIN, cache.SCALAR_ROWS_MAX, sweep.BAND_FEW
    sweep.WIDE_MIN, cache.SCALAR_ROWS_MAX, sweep.BAND_FEW = wide_min, scalar_rows_max, band_few
    try:
        yield
    finally:
        sweep.WIDE_MIN, cache.SCALAR_ROWS_MAX, sweep.BAND_FEW = before


switches = st.tuples(
    st.sampled_from([1, 1, 2, 200]), st.sampled_from([0, 10]), st.sampled_from([0, 3, 16])
)


def devices(mask: int) -> tuple[int, ...]:
    return tuple(index for index in range(63) if mask >> index & 1)


class World:
    """The same pods in a table and in the oracle's hosts."""

    def __init__(self, hosts: list[Node], pod_specs: list[PodSpec]) -> None:
        self.hosts = {i: Host(i, node) for i, node in enumerate(hosts, start=1)}
        self.table = NodeTable(SEED)
        self.table.set_nodes(list(self.hosts), hosts)
        self.specs = pod_specs
        self.sigs = [Signature(self.table, i, spec) for i, spec in enumerate(pod_specs, start=1)]
        self.pods: list[tuple[int, int, int]] = []  # node id, signature, mask

    def expected(self, which: int, k: int) -> list:
        """K cycles of the oracle; the pods stay on its hosts."""
        answers = []
        for _ in range(k):
            answer = single_cycle(SEED, self.specs[which], list(self.hosts.values()))
            if answer is None:
                break
            self.hosts[answer.node_id].pods.append((self.specs[which], answer.devices))
            answers.append(answer)
        return answers

    def charge(self, which: int, picks: Picks) -> None:
        self.table.charge(self.sigs[which], picks.rows, picks.masks)
        for row, mask in zip(picks.rows.tolist(), picks.masks.tolist(), strict=True):
            self.pods.append((self.table.node_id_at(row), which, mask))

    def release(self, index: int) -> None:
        node_id, which, mask = self.pods.pop(index % len(self.pods))
        self.hosts[node_id].pods.remove((self.specs[which], devices(mask)))
        row = np.array([self.table.row_of(node_id)], np.int64)
        self.table.charge(self.sigs[which], row, np.array([mask], np.int64), -1)

    def replace(self, node_id: int, node: Node) -> None:
        """Another node under the same id, with enough devices for the pods on it."""
        before = self.hosts[node_id].node
        count = max(before.gpu_count, node.gpu_count)
        model = before.gpu_model or node.gpu_model
        fields = {name: getattr(node, name) for name in ("allocatable", "labels", "taints")}
        node = Node(uid=before.uid, name=before.name, gpu_count=count, gpu_model=model, **fields)
        self.hosts[node_id].node = node
        self.table.set_nodes([node_id], [node])

    def remove(self, node_id: int) -> None:
        del self.hosts[node_id]
        self.pods = [pod for pod in self.pods if pod[0] != node_id]
        self.table.remove_nodes([node_id])


def assert_same(table: NodeTable, picks: Picks, answers: list) -> None:
    assert [table.node_id_at(row) for row in picks.rows.tolist()] == [a.node_id for a in answers]
    assert picks.totals.tolist() == [a.total for a in answers]
    assert [devices(mask) for mask in picks.masks.tolist()] == [a.devices for a in answers]
    if answers:
        assert (picks.feasible, picks.runner_up) == (answers[0].feasible, answers[0].runner_up)
    else:
        assert (picks.feasible, picks.runner_up) == (0, -1)


@st.composite
def worlds(draw, nodes_max: int = 8) -> World:
    count = draw(st.integers(1, nodes_max))
    kinds = draw(st.lists(nodes(0), min_size=1, max_size=count))
    hosts = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        fields = {name: getattr(kind, name) for name in Node.__struct_fields__}
        hosts.append(Node(**{**fields, "uid": f"uid-{number}", "name": f"n{number}"}))
    return World(hosts, draw(st.lists(specs(), min_size=1, max_size=3)))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.integers(0, 2), st.integers(1, 12)),
        st.tuples(st.just("place"), st.integers(0, 2), st.integers(1, 12)),
        st.tuples(st.just("release"), st.integers(0, 50), st.just(0)),
        st.tuples(st.just("replace"), st.integers(0, 50), nodes(0)),
        st.tuples(st.just("remove"), st.integers(0, 50), st.just(0)),
    ),
    min_size=1,
    max_size=8,
)


def play(world: World, kernel: Kernel, kind: str, first: int, second) -> None:
    ids = sorted(world.hosts)
    if kind == "place":
        which = first % len(world.specs)
        picks = kernel.place(world.table, world.sigs[which], second)
        assert_same(world.table, picks, world.expected(which, second))
        world.charge(which, picks)
    elif kind == "release" and world.pods:
        world.release(first)
    elif kind == "replace":
        world.replace(ids[first % len(ids)], second)
    elif kind == "remove" and len(ids) > 1:
        world.remove(ids[first % len(ids)])


@given(worlds(), steps, switches, st.sampled_from([0, 600, 1 << 20]))
@settings(max_examples=250)
def test_safety_batches_equal_single_cycles_of_the_oracle(world, script, switch, cache_bytes):
    kernel = Kernel(cache_bytes)
    with switched(*switch):
        for kind, first, second in script:
            play(world, kernel, kind, first, second)


@given(worlds(), steps)
@settings(max_examples=60)
def test_safety_messages_and_resolvable_nodes_equal_the_oracle(world, script):
    kernel = Kernel()
    for kind, first, second in script:
        play(world, kernel, kind, first, second)
        for spec, sig in zip(world.specs, world.sigs, strict=True):
            expected = why_not(spec, list(world.hosts.values()))
            assert tuple(kernel.reasons(world.table, sig)) == expected
            assert len(kernel.resolvable_rows(world.table, sig)) == expected[1]


@given(worlds(), steps, st.sampled_from([0, 10]))
@settings(max_examples=60)
def test_one_node_in_python_equals_all_nodes_in_numpy(world, script, few):
    kernel = Kernel()
    for kind, first, second in script:
        play(world, kernel, kind, first, second)
    with switched(200, few, 16):
        for sig in world.sigs:
            static, row = kernel.cache.row(world.table, sig)
            for i in range(world.table.size):
                if static.ok is None or static.ok[i]:
                    assert row[i] == OneNode(world.table, i).local_score(sig)
                fits = kernel.feasible_any(world.table, sig, np.array([i]))
                assert fits == bool(row[i] >= 0)


@given(worlds(), steps, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_a_table_is_the_same_whatever_the_order_of_its_making(world, script, random):
    for kind, first, second in script:
        play(world, Kernel(), kind, first, second)
    hosts, pods = list(world.hosts.values()), list(world.pods)
    random.shuffle(hosts)
    random.shuffle(pods)
    twin = NodeTable(SEED)
    for host in hosts:
        twin.set_nodes([host.node_id], [host.node])
    sigs = [Signature(twin, i, spec) for i, spec in enumerate(world.specs, start=1)]
    for node_id, which, mask in pods:
        known = twin.charge_nodes(sigs[which], np.array([node_id]), np.array([mask]))
        assert known.all()
    assert twin.ids.tolist() == world.table.ids.tolist()
    for name, index in world.table.resources.items():
        mine, theirs = world.table.requested[index], twin.requested[twin.resources[name]]
        assert mine.tolist() == theirs.tolist()
    for sig, twin_sig in zip(world.sigs, sigs, strict=True):
        mine = Kernel().place(world.table, sig, 9)
        theirs = Kernel().place(twin, twin_sig, 9)
        assert [part.tolist() for part in mine[:3]] == [part.tolist() for part in theirs[:3]]
        assert mine[3:] == theirs[3:]


def nominated_hosts(world: World, held: dict[int, list[tuple[int, int]]]) -> dict[int, list[Host]]:
    """The hosts with nominated pods on them, as they are now."""
    out = {}
    for node_id, pods in held.items():
        host = world.hosts[node_id]
        full = Host(node_id, host.node, list(host.pods))
        full.pods += [(world.specs[which], devices(mask)) for which, mask in pods]
        out[node_id] = [full]
    return out


@given(worlds(), st.integers(1, 10), st.integers(0, 2), st.integers(0, 2), switches)
@settings(max_examples=120)
def test_safety_nominated_pods_count_in_filter_and_not_in_score(world, k, first, second, switch):
    kernel, held = Kernel(), {}
    nominated = world.sigs[first % len(world.sigs)]
    which = second % len(world.sigs)
    # Every other node gets a nomination of the first signature, if it fits there.
    for node_id in sorted(world.hosts)[::2]:
        node = OneNode(world.table, world.table.row_of(node_id))
        if node.fits(nominated):
            held[node_id] = [(first % len(world.sigs), node.pick_devices(nominated))]
    seen = {n: [(world.sigs[w], mask) for w, mask in pods] for n, pods in held.items()}
    with switched(*switch):
        picks = kernel.place(world.table, world.sigs[which], k, seen)
        one = kernel.place_naive(world.table, world.sigs[which], seen)
    answers = []
    for _ in range(k):
        hosts = list(world.hosts.values())
        spec = world.specs[which]
        answer = single_cycle(SEED, spec, hosts, nominated_hosts(world, held))
        if answer is None:
            break
        world.hosts[answer.node_id].pods.append((spec, answer.devices))
        answers.append(answer)
    assert_same(world.table, picks, answers)
    assert_same(world.table, one, answers[:1])


def ledger(table: NodeTable) -> tuple:
    arrays = (table.cols, table.allocatable, table.gpu_free, table.generation, table.ids)
    used = [dict(table.ports.used(node_id)) for node_id in table.ids.tolist()]
    return [array.tobytes() for array in arrays], used, table.changes.position


@given(worlds(), steps, st.integers(0, 2), st.integers(1, 12))
@settings(max_examples=60)
def test_safety_placing_and_trials_leave_the_table_as_it_was(world, script, which, k):
    kernel = Kernel()
    for kind, first, second in script:
        play(world, kernel, kind, first, second)
    before = ledger(world.table)
    trial = world.table.trial()
    for sig in [world.sigs[which % len(world.sigs)], *world.sigs]:
        picks = kernel.place(trial, sig, k)
        trial.charge(sig, picks.rows, picks.masks)
        kernel.reasons(trial, sig)
    assert ledger(world.table) == before
    # What the trial answered is what the table answers once it is charged the same.
    for sig in [world.sigs[which % len(world.sigs)], *world.sigs]:
        picks = kernel.place(world.table, sig, k)
        world.table.charge(sig, picks.rows, picks.masks)
    assert ledger(trial)[0][:3] == ledger(world.table)[0][:3]


@given(st.lists(nodes(0), min_size=1, max_size=3), specs(), st.integers(100, 400))
@settings(max_examples=12)
def test_safety_wide_levels_equal_single_cycles_of_the_oracle(kinds, spec, k):
    hosts = []
    for number in range(150):
        kind = kinds[number % len(kinds)]
        fields = {name: getattr(kind, name) for name in Node.__struct_fields__}
        hosts.append(Node(**{**fields, "uid": f"uid-{number}", "name": f"n{number}"}))
    world = World(hosts, [spec])
    picks = Kernel().place(world.table, world.sigs[0], k)
    assert_same(world.table, picks, world.expected(0, k))
