"""The layout of a node table's columns and the number types of the kernel; no behaviour.

Everything that Filter or a node-local Score reads of a node is one float64 in one matrix, shape
(columns, nodes), so that a set of nodes is gathered by one call and one node becomes one list of
Python floats. All values are integers below 2**53 and so exact: adding and taking away in any order
gives the same bits.

The two halves are kept apart on purpose: ROOM and USED are what Score reads, FREE and the GPU
columns are what Filter reads. A nomination is charged to the second half alone, because
kube-scheduler counts nominated pods in Filter and not in Score.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shared.model.ids import NodeId

if TYPE_CHECKING:
    from shared.scheduling.cycle.signature import Signature

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]
I32: TypeAlias = NDArray[np.int32]
I16: TypeAlias = NDArray[np.int16]
Totals: TypeAlias = NDArray[np.signedinteger[Any]]
"""Scores of nodes, weighted: 16 bits where the profile's weights allow it (Plugins.number)."""
Mask: TypeAlias = NDArray[np.bool_]

# Nominated pods by node id, with their device masks: Filter counts them as present.
NominatedPods: TypeAlias = Mapping[NodeId, Sequence[tuple["Signature", int]]]

# Columns, cpu before memory everywhere. The pairs are adjacent so that both go through one call.
ALLOC = 0  # allocatable cpu, memory
ROOM = 2  # 100 times what is allocatable minus the non-zero requests of the node's pods
USED = 4  # requests of the node's pods
GPU_LARGEST = 6  # milli free on the device that has most (see devices.largest_and_empty)
GPU_EMPTY = 7  # devices with all of their milli free (likewise)
FREE = 8  # allocatable minus requests, one column for each resource

CPU_INDEX, MEMORY_INDEX, PODS_INDEX = 0, 1, 2  # resources every table has

DEVICE_MILLI = 1000
DEVICES_MAX = 63  # a device mask is one non-negative int64
COUNTED_MAX = 1_000_000  # of a node with more devices than a mask names (see devices.py)

# floor(100 * a / b) in float64 equals the integer division as long as b <= 2**46 (a <= b): the
# product is exact then, and the quotient further from the next integer than half a unit in its
# last place. ROOM holds the product, which saves the multiplication in every score.
SCORED_MAX = 2.0**46
PERCENT = 100.0
AMOUNT_MAX = 2.0**52

INFEASIBLE = -30_000  # in a score row: far below any total of 16 bits
