"""Columns of images follow the nodes, and change only for signatures whose images changed."""

import msgspec

from shared.model.images import number, packed
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.score_classes import static_of
from shared.scheduling.plugins.image_locality import ImageLocality
from shared.scheduling.table.images import COLUMNS_MAX, Spread
from tests.unit.scheduling.tables import GI, at, node, sig, spec, table_of

MIB, INT64_MAX = 1 << 20, (1 << 63) - 1
LARGE = packed([("i:1", 1000 * MIB)])


def test_the_stamp_is_0_while_no_node_has_the_images():
    table = table_of(node(1), node(2))
    assert table.images.stamp(("i:1",)) == 0
    table = table_of(node(1, images=LARGE), node(2))
    assert table.images.stamp(("j:1",)) == 0
    assert table.images.stamp(()) == 0
    assert table.images.stamp(("i:1", "j:1")) > 0


def test_pods_without_images_on_nodes_share_static_answers():
    table = table_of(node(1, images=LARGE), node(2))
    plain, other = sig(table, spec(100, GI)), sig(table, spec(100, GI, images=("j:1",)))
    has = sig(table, spec(100, GI, images=("i:1",)))
    found = [static_of(table, one.spec, one.plugins) for one in (plain, other, has)]
    assert found[0] is found[1] is not found[2]


def test_a_change_of_images_concerns_only_signatures_that_name_them():
    table = table_of(node(1, images=LARGE), node(2, images=packed([("j:1", MIB)])))
    mine, theirs = table.images.stamp(("i:1",)), table.images.stamp(("j:1",))
    version = table.static_version
    table.set_nodes([2], [node(2, images=packed([("j:1", MIB), ("i:1", 7)]))])
    assert table.images.stamp(("i:1",)) > mine
    assert table.images.stamp(("j:1",)) == theirs
    assert table.static_version == version
    assert table.images.column("i:1").here == 2
    table.set_nodes([2], [node(2)])
    assert table.images.column("i:1").here == 1
    assert table.images.column("i:1").sizes[at(table, 2)] == -1


def test_a_pod_goes_where_its_image_came_to():
    nodes = [node(number) for number in range(1, 9)]
    table, kernel = table_of(*nodes), Kernel()
    pod = sig(table, spec(100, GI, images=("i:1",)))
    first = kernel.place(table, pod, 1)
    assert first.rows.tolist() == [0]
    assert kernel.place(table, pod, 1).rows.tolist() == [0]  # kept now
    changed = msgspec.structs.replace(table.nodes[5], images=LARGE)
    table.set_nodes([int(table.ids[5])], [changed])
    assert kernel.place(table, pod, 1).rows.tolist() == [5]
    # One of eight nodes has it: 125 MiB of it count.
    assert kernel.place(table, pod, 1).totals.tolist() == [first.totals[0] + 10]


def test_a_part_of_a_cluster_counts_with_the_whole():
    table = table_of(node(1, images=LARGE), node(2))
    column = table.images.column("i:1")
    assert table.images.share(column) == 0.5
    before = table.images.stamp(("i:1",))
    table.images.set_spread(Spread(10, {number("i:1"): 4, 5: 1}))
    column = table.images.column("i:1")
    assert table.images.share(column) == 0.4
    newer = table.images.stamp(("i:1",))
    assert newer > before
    table.images.set_spread(Spread(10, {number("i:1"): 4, 5: 2}))
    assert table.images.stamp(("i:1",)) == newer
    table.images.set_spread(Spread(10, {number("i:1"): 5}))
    assert table.images.stamp(("i:1",)) > newer


def test_columns_are_bounded():
    table = table_of(node(1, images=LARGE))
    for name in range(COLUMNS_MAX + 1):
        table.images.column(f"i:{name}")
    assert len(table.images._columns) == 1


def test_columns_follow_the_rows_as_nodes_come_and_go():
    table = table_of(node(1, images=LARGE), node(2), node(3))
    column = table.images.column("i:1")
    table.set_nodes([4, 5, 6], [node(4), node(5, images=LARGE), node(6)])
    assert table.images.column("i:1") is column

    def holders() -> list[int]:
        return sorted(table.ids[column.sizes >= 0].tolist())

    assert (holders(), column.here) == ([1, 5], 2)
    table.remove_nodes([1, 2, 6])
    assert (holders(), column.here) == ([5], 1)
    table.remove_nodes([5])
    assert (holders(), column.here, table.images.stamp(("i:1",))) == ([], 0, 0)


def test_a_score_does_not_leave_int64_however_many_of_the_largest_images_a_pod_has():
    table = table_of(node(1, images=packed([("huge:1", INT64_MAX)])))
    score = ImageLocality().raw(table, spec(1, GI, images=("huge:1",) * 10_000))
    assert score is not None
    assert score.tolist() == [100]
