"""The default local scores since kube-scheduler 1.36 are those of the general formulas, faster."""

import random
from dataclasses import dataclass, field

import numpy as np

from shared.model.ids import NodeId, SignatureId
from shared.model.objects import CPU, MEMORY, Node, PodSpec
from shared.model.profile import Profile
from shared.model.release import V1_36, V1_37, release
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.profile import GainScores, LocalScores, Plugins
from shared.scheduling.table.table import NodeTable

CPUS = (0, 3, 1_000, 4_000, 64_000)
MEMORIES = (0, 7, 1 << 30, 8 << 30, 512 << 30)


@dataclass
class Cluster:
    """Nodes of all sizes, some of them without cpu or memory, with pods beyond what fits."""

    chance: random.Random
    plugins: Plugins
    table: NodeTable = field(default_factory=lambda: NodeTable(1))

    def __post_init__(self) -> None:
        nodes = [
            Node(uid=f"{cpu}-{memory}", name="n", allocatable=((CPU, cpu), (MEMORY, memory)))
            for cpu in CPUS
            for memory in MEMORIES
        ]
        self.table.set_nodes([NodeId(at) for at in range(len(nodes))], nodes)
        for _ in range(40):
            rows = [self.chance.randrange(self.table.size) for _ in range(3)]
            self.table.charge(self.signature(), np.array(rows, np.int64))

    def signature(self) -> Signature:
        cpu = self.chance.choice((0, 1, 333, 1_000, 50_000))
        memory = self.chance.choice((0, 5, 1 << 20, 3 << 30, 600 << 30))
        spec = PodSpec(
            requests=((CPU, cpu), (MEMORY, memory)),
            nonzero_cpu_milli=cpu or 100,
            nonzero_memory_bytes=memory or 200 << 20,
        )
        return Signature(self.table, SignatureId(1), spec, self.plugins)


def test_they_are_those_of_the_general_formulas():
    for seed, version in ((1, V1_36), (2, V1_37)):
        cluster = Cluster(random.Random(seed), Plugins(Profile(), release(version, {})))
        for _ in range(60):
            one, table = cluster.signature(), cluster.table
            assert isinstance(one.scores, GainScores)
            general = LocalScores(one.scores.terms, one.scores.least, one.plugins.number)
            expected = general.scores(table.cols)
            found = one.scores.scores(table.cols)
            assert found.dtype == expected.dtype
            assert found.tolist() == expected.tolist()
            singly = [one.scores.score(table.cols[:, row].tolist()) for row in range(table.size)]
            assert singly == expected.tolist()
