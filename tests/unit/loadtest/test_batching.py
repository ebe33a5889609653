"""Batches are measured beside single cycles: the ways differ in options that exist."""

import pytest
from rich.console import Console

from loadtest.batching.__main__ import VOID, WAYS, _table, of_flood

NODES = "{opcode: createNodes, count: 2}"
PODS = "{opcode: createPods, count: 50}"


@pytest.mark.parametrize("way", WAYS)
def test_a_flood_is_played_in_each_way(way, tmp_path):
    file = tmp_path / "w.yaml"
    file.write_text(f"steps: [{NODES}, {PODS}, {{opcode: barrier}}]")
    assert of_flood(file, WAYS[way]) > 0
    file.write_text("steps: nothing")
    assert of_flood(file, WAYS[way]) == VOID


def test_the_table_has_medians_and_how_many_times_they_are_the_batches():
    costs = [(9.0, 90.0, 1.0), (10.0, 30.0, 100.0), (11.0, 20.0, 300.0)]
    rows = [{"workload": "w", **dict(zip(WAYS, found, strict=True))} for found in costs]
    console = Console(width=100, record=True)
    console.print(_table(rows))
    text = console.export_text()
    assert "30 (3.0 x)" in text
    assert "100 (10.0 x)" in text
