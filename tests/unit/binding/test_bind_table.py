"""The table of binds: names of pods that arrive one by one share a chunk."""

import numpy as np
import pytest

from services.binding.core.pod_table import CHUNK_PODS, GROWN_PODS, BindTable


def test_single_names_are_found_while_their_chunk_grows():
    table = BindTable()
    table.extend(2 * GROWN_PODS)
    for row in range(GROWN_PODS + 1):
        table.name_one(row, "default", f"uid-{row}", f"pod-{row}")
        chunk, place = table.names[table.chunks.item(row)], table.places.item(row)
        found = (chunk.uid_list()[place], chunk.name_list()[place])
        assert found == (f"uid-{row}", f"pod-{row}")
    assert [chunk.count for chunk in table.names.values()] == [GROWN_PODS, 1]


def test_another_namespace_or_a_removed_chunk_starts_a_new_chunk():
    table = BindTable()
    table.extend(3)
    table.name_one(0, "default", "a", "a")
    table.name_one(1, "other", "b", "b")
    table.forget(np.array([1]))
    table.name_one(2, "other", "c", "c")
    assert [(chunk.namespace, chunk.names) for chunk in table.names.values()] == [
        ("default", "a"),
        ("other", "c"),
    ]


@pytest.mark.parametrize("ids", [[4, 6, 5], [5, 6], [4, 5, 7], [3, 4], []])
def test_pods_that_do_not_follow_the_last_one_in_a_row_get_no_rows(ids):
    table = BindTable()
    table.extend(3)
    assert table.follow(np.array(ids, np.int64)) is None
    assert table.last == 3


def test_pods_that_follow_find_their_names():
    table = BindTable()
    known = 0
    for count in (3, 5, CHUNK_PODS + 2):
        numbers = range(known, known + count)
        rows = table.follow(np.array(numbers) + 1)
        assert rows == slice(known, known + count)
        uids, names = (
            "\n".join(f"{kind}-{number}" for number in numbers) for kind in ("uid", "pod")
        )
        table.name(rows, "default", uids, names, count)
        known += count
    for row in range(known):
        chunk, place = table.names[table.chunks.item(row)], table.places.item(row)
        found = (table.ids.item(row), chunk.uid_list()[place], chunk.name_list()[place])
        assert found == (row + 1, f"uid-{row}", f"pod-{row}")
    assert [chunk.count for chunk in table.names.values()] == [8, CHUNK_PODS, 2]
