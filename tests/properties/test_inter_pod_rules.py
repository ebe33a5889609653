"""Inter-pod rules in the kernel: k picks at once equal k cycles, and counters follow
the charges.
"""

from collections import Counter
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.model.objects import (
    Node,
    PodSpec,
    PodTerm,
    PreferredPodTerm,
    Requirement,
    SpreadConstraint,
)
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.counters import Matching
from shared.scheduling.table.table import NodeTable

APPS, ZONES = "abc", "xyz"


def selector(draw):
    app = Requirement("app", "In", tuple(sorted(draw.sample(APPS, draw.choice((1, 1, 2))))))
    return draw.choice(((app,), (app,), (Requirement("app", "Exists"),), ()))


def spec(draw, host="host"):
    """Return a pod with an app and perhaps a rule of every kind. `host`: a label of one node."""
    key = lambda: draw.choice(("zone", host))  # noqa: E731
    some = lambda: draw.random() < 0.3  # noqa: E731
    where = lambda: draw.choice((((), None), (("m", "n"), None), ((), ())))  # noqa: E731
    term = lambda: PodTerm(key(), selector(draw), *where())  # noqa: E731
    return PodSpec(
        requests=(("cpu", draw.choice((100, 500))),),
        namespace=draw.choice(("n", "m")),
        labels=(("app", draw.choice(APPS)),),
        spread=(SpreadConstraint(key(), 1 + some(), some(), selector(draw)),) if some() else (),
        pod_affinity=(term(),) if draw.random() < 0.15 else (),
        pod_anti_affinity=(term(),) if some() else (),
        pods_preferred=(PreferredPodTerm(draw.choice((-5, 3)), term()),) if some() else (),
    )


def world(draw, sigs=8):
    table = NodeTable(7)
    nodes = [
        Node(
            uid=f"u{at}",
            name=f"node-{at}",
            allocatable=(("cpu", 4000), ("memory", 1 << 33), ("pods", 12)),
            labels={"host": f"h{at}", "zone": draw.choice(ZONES)} if draw.random() < 0.9 else {},
        )
        for at in range(draw.randint(1, 12))
    ]
    table.set_nodes(range(1, len(nodes) + 1), nodes)
    specs = list(dict.fromkeys(spec(draw) for _ in range(sigs)))
    compiled = [Signature(table, at, one) for at, one in enumerate(specs, start=1)]
    for sig in compiled:
        table.counters.add(sig)
    return table, compiled


@settings(max_examples=150)
@given(st.integers(0, 1 << 30), st.integers(1, 12))
def test_pods_at_once_go_where_they_go_one_by_one(seed, k):
    draw, kernel = Random(seed), Kernel()
    table, sigs = world(draw)
    for sig in (draw.choice(sigs) for _ in range(6)):
        at_once = kernel.place(table, sig, k)
        alone = []
        for _ in range(k):
            pick = kernel.place_naive(table, sig)
            if not len(pick.rows):
                break
            alone.append((int(pick.rows[0]), int(pick.totals[0])))
            table.charge(sig, pick.rows)
        assert list(zip(at_once.rows.tolist(), at_once.totals.tolist(), strict=True)) == alone


@settings(max_examples=100)
@given(st.integers(0, 1 << 30))
def test_counts_equal_those_of_the_present_pods(seed):
    draw = Random(seed)
    table, sigs = world(draw)
    there: Counter = Counter()
    for _ in range(40):
        sig, row = draw.choice(sigs), draw.randrange(table.size)
        node = table.node_id_at(row)
        leaves = there[sig, node] > 0 and draw.random() < 0.4
        count = 1 if leaves else draw.randint(1, 3)
        table.charge(sig, np.array([row] * count, np.int64), None, -1 if leaves else 1)
        there[sig, node] += -1 if leaves else count
        if draw.random() < 0.1:
            table.set_nodes([100 + row], [Node(uid=f"late{row}", name=f"late-{row}")])
        if draw.random() < 0.05 and table.size > 1:
            gone = table.node_id_at(0)
            table.remove_nodes([gone])
            there = Counter({key: n for key, n in there.items() if key[1] != gone})
    for counter, at in table.counters.index.items():
        for row in range(table.size):
            pods = ((sig, there[sig, table.node_id_at(row)]) for sig in sigs)
            expected = sum(n * dict(sig.counted).get(at, 0) for sig, n in pods)
            assert table.counters.counts[at, row] == expected, counter


def test_counters_are_dropped_with_the_last_signature_that_needs_them():
    draw = Random(3)
    table, sigs = world(draw, sigs=20)
    assert any(isinstance(one, Matching) for one in table.counters.index)
    for sig in sigs:
        table.counters.drop(sig)
    assert not table.counters
    fresh = Signature(table, 99, sigs[0].spec)
    table.counters.add(fresh)
    assert not table.counters.counts.any()


@settings(max_examples=60)
@given(st.integers(0, 1 << 30))
def test_counters_do_not_depend_on_the_order_of_events(seed):
    """Lookups by place find the same as asking every counter about every signature."""
    draw = Random(seed)
    table, sigs = world(draw, sigs=10)
    for sig in draw.sample(sigs, len(sigs) // 2):
        table.counters.drop(sig)
        sigs.remove(sig)
    for sig in sigs:
        moved = Counter(at for at, _ in sig.counted)
        for counter, at in table.counters.index.items():
            if isinstance(counter, Matching):
                assert moved[at] == counter.matches(sig.spec, {}), (counter, sig.spec)
