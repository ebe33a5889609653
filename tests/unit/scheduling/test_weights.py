"""Totals: 16 bits while the weights allow it, 64 beyond; the same picks either way."""

import numpy as np
import pytest

from shared.model.columns import pack_totals, unpack_totals
from shared.model.objects import PREFER_NO_SCHEDULE, PreferredTerm, Taint
from shared.model.objects import Requirement as Need
from shared.model.objects import SelectorTerm as Term
from shared.model.profile import Profile
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.profile import Plugins
from tests.unit.scheduling.tables import GI, node, spec, table_of

TAINTS, AFFINITY, FIT = "TaintToleration", "NodeAffinity", "NodeResourcesFit"
HUGE = (1 << 31) - 1


def plugins(**weights: int) -> Plugins:
    return Plugins(Profile(scores=tuple(weights.items())))


@pytest.mark.parametrize(
    ("weights", "number"),
    [
        ({AFFINITY: 298, FIT: 1}, np.int16),
        ({AFFINITY: 299, FIT: 1}, np.int64),
        ({AFFINITY: 299, "DynamicResources": HUGE}, np.int64),
        ({FIT: HUGE}, np.int64),
    ],
)
def test_totals_have_16_bits_as_long_as_these_hold_any(weights, number):
    table = table_of(node(1), node(2))
    pod = Signature(table, 1, spec(100, GI), plugins(**weights))
    for picks in (Kernel().place(table, pod, 3), Kernel().place_naive(table, pod)):
        assert picks.totals.dtype == number


@pytest.mark.parametrize("column", [[], [7], [-1, 29_900, 0]])
@pytest.mark.parametrize("number", [np.int16, np.int64])
def test_a_column_of_totals_is_read_as_it_was_written(column, number):
    packed = pack_totals(np.array(column, number))
    assert len(packed) == number().itemsize * len(column)
    assert unpack_totals(packed, len(column)).tolist() == column


@pytest.mark.parametrize("size", [3, 60])
@pytest.mark.parametrize("weight", [100, 1_000, HUGE // 3])
def test_large_weights_keep_the_order_of_picks(size, weight):
    soft = (Taint("busy", "", PREFER_NO_SCHEDULE),)
    likes = PreferredTerm(5, Term((Need("disk", "Exists"),)))
    nodes = [
        node(i, taints=soft * (i % 3 > 0), labels={"disk": "ssd"} if i % 5 else {}, pods=i % 4)
        for i in range(size)
    ]
    table = table_of(*nodes)
    wanted = spec(1000, 2 * GI, affinity_preferred=(likes,))
    weights = {TAINTS: 3, AFFINITY: 2, FIT: 1}
    small = Signature(table, 1, wanted, plugins(**weights))
    weights = {name: weight * one for name, one in weights.items()}
    large = Signature(table, 2, wanted, plugins(**weights))
    for count in (1, 5, 300):
        one, other = (Kernel().place(table, sig, count) for sig in (small, large))
        assert one.rows.tolist() == other.rows.tolist()
        assert (weight * one.totals.astype(np.int64)).tolist() == other.totals.tolist()
        assert one.feasible == other.feasible


def test_extender_scores_count_with_large_weights():
    table = table_of(node(1), node(2), node(3))
    pod = Signature(table, 1, spec(1000, 2 * GI), plugins(**{FIT: HUGE}))
    alone = Kernel().place_naive(table, pod)
    rows, more = np.arange(3), np.array([5, 1 << 50, 7])
    found = Kernel().place_among(table, pod, None, rows, more)
    assert found is not None
    pick, added = found
    assert (pick.row, pick.total, added) == (1, alone.totals[0], 1 << 50)
