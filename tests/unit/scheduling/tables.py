"""Nodes, tables and signatures, in one line each."""

from typing import Any

import numpy as np

from shared.model.objects import Node, PodSpec
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.layout import I64
from shared.scheduling.table.table import NodeTable
from tests.support.builders import model_node, model_spec

GI = 1 << 30


def node(number: int, cpu: int = 4000, memory: int = 8 * GI, pods: int = 110, **more: Any) -> Node:
    """A node named n<number> with uid u<number>."""
    builder = model_node(f"n{number}", f"u{number}")
    builder.capacity(cpu=cpu, memory=memory, pods=pods, **more.pop("extra", {}))
    return builder.fields(**more).obj()


def table_of(*nodes: Node, seed: int = 3) -> NodeTable:
    """Return a table with these nodes under ids 1, 2, ..."""
    table = NodeTable(seed)
    table.set_nodes(range(1, len(nodes) + 1), nodes)
    return table


def spec(cpu: int | None = None, memory: int | None = None, **more: Any) -> PodSpec:
    """Return the spec of a pod with one container; absent requests have kube-scheduler's defaults
    for scores.
    """
    builder = model_spec().requests(cpu=cpu, memory=memory, **more.pop("extra", {}))
    return builder.fields(**more).obj()


def sig(table: NodeTable, pod: PodSpec) -> Signature:
    """Return the pod compiled for the table."""
    return Signature(table, 1, pod)


def rows(*values: int) -> I64:
    """Return a column of rows or masks."""
    return np.array(values, np.int64)


def at(table: NodeTable, node_id: int) -> int:
    """Return the row of an existing node."""
    row = table.row_of(node_id)
    assert row is not None
    return row
