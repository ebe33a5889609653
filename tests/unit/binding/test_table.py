"""The table of binds: names of pods that came one by one share a chunk."""

import numpy as np

from services.binding.core.table import GROWN_PODS, BindTable


def test_names_told_one_by_one_are_found_while_their_chunk_grows():
    table = BindTable()
    table.extend(2 * GROWN_PODS)
    for row in range(GROWN_PODS + 1):
        table.add_one(row, "default", f"uid-{row}", f"pod-{row}")
        chunk, place = table.names[table.chunks.item(row)], table.places.item(row)
        found = (chunk.uid_list()[place], chunk.name_list()[place])
        assert found == (f"uid-{row}", f"pod-{row}")
    assert [chunk.count for chunk in table.names.values()] == [GROWN_PODS, 1]


def test_another_namespace_and_a_chunk_that_is_gone_begin_a_new_one():
    table = BindTable()
    table.extend(3)
    table.add_one(0, "default", "a", "a")
    table.add_one(1, "other", "b", "b")
    table.forget(np.array([1]))
    table.add_one(2, "other", "c", "c")
    assert [(chunk.namespace, chunk.names) for chunk in table.names.values()] == [
        ("default", "a"),
        ("other", "c"),
    ]
